"""Processes of ``runtimes.py``, which hold models and time them when they are told to."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUIET = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "NM_DISABLE_ANALYTICS": "1",
    "PIP_NO_INDEX": "1",
}
"""Keeps runtimes from spinning on the shared core while others are timed, from calling home, and from installing what
they would call home with: MNN's converter does, into whichever environment is active.
"""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process of ``runtimes.py``, its runtime and version, and what its models made of the image: (models, logits)."""

    name: str
    process: subprocess.Popen[str]
    version: str
    outputs: NDArray[np.float64]

    def seconds(self, model: int, visit: float) -> float:
        """Time one model. Raises ``RuntimeError`` when the process has died or the model fails."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the answer says why
            self.process.stdin.write(json.dumps({"model": model, "seconds": visit}) + "\n")
            self.process.stdin.flush()
        answer = _answer(self.process)
        if "error" in answer:
            raise RuntimeError(f"{self.name}, model {model}: {answer['error']}")
        return float(answer["seconds"])


def _answer(process: subprocess.Popen[str]) -> Mapping[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        return {"error": f"the process ended with status {process.wait()}"}
    answer: Mapping[str, Any] = json.loads(line)
    return answer


def start(
    name: str,
    precision: str,
    cores: Sequence[int],
    image: Path,
    models: Sequence[Path],
    python: str,
    environment: Mapping[str, str],
) -> Worker | str:
    """A worker with its models loaded, or why there is none."""
    script = Path(__file__).with_name("runtimes.py")
    command = [python, str(script), name, precision, ",".join(map(str, cores)), str(image), *map(str, models)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | QUIET | environment,
    )
    answer = _answer(process)
    if "error" in answer:
        process.kill()
        return str(answer["error"])
    return Worker(name, process, str(answer["version"]), np.array(answer["outputs"]))

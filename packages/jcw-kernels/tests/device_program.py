"""``jcw-device`` and libjcw built from this checkout; what the program says and what it complains about."""

from __future__ import annotations

import fcntl
import json
import subprocess
from dataclasses import asdict
from functools import cache
from pathlib import Path

from programs import need

from jcw_core.network.problem import LayerProblem

PACKAGE = Path(__file__).resolve().parents[1]


@cache
def built() -> str:
    """A static program for this machine; after the first time only what has changed is compiled."""
    need("cmake", "c++")
    build = PACKAGE / "build" / "device"
    options = ["-DJCW_PYTHON=OFF", "-DJCW_DEVICE=ON", "-DJCW_LIBRARY=ON"]
    build.mkdir(parents=True, exist_ok=True)
    # Several test processes want it at once, and one of them builds it.
    with open(build / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["cmake", "-S", PACKAGE, "-B", build, *options], check=True, capture_output=True)
        subprocess.run(["cmake", "--build", build, "--parallel", "2"], check=True, capture_output=True)
    return str(build / "jcw-device")


def answer(*command: object, timeout: float | None = None) -> list[dict]:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=timeout)
    return [json.loads(line) for line in done.stdout.splitlines()]


def complaint(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    # An emulator may add warnings of its own.
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("jcw-device: ")]
    return line


def layer_file(path: Path, *problems: LayerProblem) -> Path:
    path.write_text("".join(json.dumps(asdict(problem)) + "\n" for problem in problems))
    return path

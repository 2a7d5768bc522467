"""No layer is slower with fewer weights, judged by instructions: they repeat exactly where time does not."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from device_program import layer_file
from programs import needs

from jcw_core.network.problem import LayerProblem

LAYERS = {
    "3 x 3": LayerProblem("conv2d", 32, 14, 14, 64, (3, 3), (1, 1), (1, 1), activation="relu"),
    "stride 2": LayerProblem("conv2d", 32, 14, 14, 64, (3, 3), (2, 2), (1, 1)),
    "1 x 1": LayerProblem("conv2d", 128, 7, 7, 64),
    "1 x 1, then depthwise": LayerProblem(
        "conv2d",
        32,
        14,
        14,
        64,
        then=LayerProblem("conv2d", 64, 14, 14, 64, (3, 3), (2, 2), (1, 1), groups=64),
    ),
    "linear": LayerProblem("linear", 256, 1, 1, 100),
}
DENSITIES = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05]


def instructions(program: str, layer: LayerProblem, isa: str, folder: Path) -> int:
    file = layer_file(folder / "layers.jsonl", layer)
    done = subprocess.run(
        [
            *("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"),
            "--toggle-collect=jcw::Program::timed(unsigned long)",
            *(program, "layers", str(file), "--once", "--isa", isa),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    (kernel,) = json.loads(done.stdout.splitlines()[0])["kernels"]
    assert kernel.endswith("+depthwise") == (layer.then is not None)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("isa", ["avx2"])
@needs("valgrind")
def test_fewer_weights_never_take_more_instructions(
    name: str, isa: str, program: str, tmp_path: Path
) -> None:
    described = subprocess.run([program, "describe"], capture_output=True, text=True, check=True)
    if isa not in json.loads(described.stdout)["isas"]:
        pytest.skip(f"{isa} is not available here")
    counts = [instructions(program, replace(LAYERS[name], density=d), isa, tmp_path) for d in DENSITIES]
    assert counts == sorted(counts, reverse=True)
    # The work that is left, and not much beside it.
    assert counts[-1] < 0.6 * counts[0]

"""Layers and threads that take more memory than the machine has are answered, and do not end the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from device_program import answer, layer_file

from jcw_core.network.problem import LayerProblem

LIMITED = ["sh", "-c", 'ulimit -s 8192 && ulimit -v 1000000 && exec "$@"', "sh"]
"""Runs a command in 1 GB of address space, of which each thread's stack takes 8 MB."""

SMALL = LayerProblem("relu", 4, 8, 8, 4)


@pytest.mark.parametrize(
    "large",
    [
        LayerProblem("linear", 16384, 1, 1, 16384),
        LayerProblem("linear", 16384, 1, 1, 16384, density=0.0),
        LayerProblem("conv2d", 128, 1024, 1024, 128, (3, 3), padding=(1, 1)),
        LayerProblem("add", 64, 1024, 1024, 64),
    ],
)
def test_layers_that_do_not_fit_are_null(large: LayerProblem, program: str, tmp_path: Path) -> None:
    file = layer_file(tmp_path / "layers", SMALL, large, large, SMALL)
    about, once = answer(*LIMITED, program, "layers", file, "--once", timeout=20)
    assert about["kernels"] == ["elementwise", None, None, "elementwise"]
    assert [seconds is None for seconds in once["seconds"]] == [False, True, True, False]


def test_layers_whose_threads_cannot_be_started_are_null(program: str, tmp_path: Path) -> None:
    file = layer_file(tmp_path / "layers", SMALL)
    _, once = answer(*LIMITED, program, "layers", file, "--once", "--threads", 256)
    assert once["seconds"] == [None]


def test_python_goes_on_when_threads_cannot_be_started() -> None:
    code = """
import numpy
from jcw_core.errors import DeviceError
from jcw_core.network.model import Model
from jcw_core.network.builder import NetworkBuilder
from jcw_kernels import compile_model
builder = NetworkBuilder("copy", (1, 2, 2))
builder.add("relu", "relu")
model = Model(builder.build(), {})
try:
    compile_model(model, threads=256)
except DeviceError as error:
    print(error)
print(compile_model(model, threads=2).run(numpy.ones((1, 1, 2, 2), numpy.float32)).sum())
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [*LIMITED, sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    said, total = done.stdout.splitlines()
    assert said.endswith("of 256 threads could be started")
    assert total == "4.0"

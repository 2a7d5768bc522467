"""Instructions and memory of loading a model grow in proportion to it: they repeat where time does not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_programs import model_file

LOADING = ["jcw::Model::parse(*", "jcw::Program::Program(*"]
"""The functions that load a model."""


def chain(count: int, size: int, back: int) -> bytes:
    """Sums of the tensors before them; planes of 64 x 64 are placed in memory otherwise than small ones."""
    units = [{"name": f"add{i}", "op": "add", "inputs": [max(0, i - back), i]} for i in range(count)]
    return model_file(
        {"input": [1, size, size], "units": units, "output": count}, {"z": np.zeros(1, np.float32)}
    )


def star(count: int, size: int, back: int) -> bytes:
    """As many tensors at a time."""
    relu = {"op": "activation", "activation": "relu", "inputs": [0]}
    units: list[dict[str, Any]] = [{"name": f"relu{i}", **relu} for i in range(count)]
    units.append({"name": "all", "op": "concat", "inputs": list(range(1, count + 1))})
    program = {"input": [1, size, size], "units": units, "output": count + 1}
    return model_file(program, {"z": np.zeros(1, np.float32)})


def instructions(program: str, file: bytes, folder: Path) -> int:
    (folder / "model.jcw").write_bytes(file)
    command = [
        *("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"),
        *(f"--toggle-collect={name}" for name in LOADING),
        *(program, "run", str(folder / "model.jcw"), "--once", "--isa", "scalar"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found
    return int(found[1])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counting instructions takes valgrind")
@pytest.mark.parametrize("size", [4, 64])
@pytest.mark.parametrize(("network", "back"), [(chain, 0), (chain, 1), (chain, 30), (star, 0)])
def test_four_times_the_layers_take_little_more_than_four_times_the_instructions(
    network: Any, back: int, size: int, program: str, tmp_path: Path
) -> None:
    few, many = (instructions(program, network(n, size, back), tmp_path) for n in (300, 1200))
    assert few > 100_000
    assert many < 5 * few


MALFORMED = {
    "numbers": ("[", "0,", "0]"),
    "lists": ("[", "[],", "0]"),
    "objects": ("[", "{},", "0]"),
    "texts": ("[", '"",', "0]"),
    "members": ("{", '"":0,', '"":0}'),
    "members that are few enough": ("{", '"abc":0,', '"":0}'),
    "texts that are few enough": ("[", '"abcd",', "0]"),
    "nested": ("[", "[[[[0]]]],", "0]"),
    "names": ("{", '"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},', '"y":0}'),
    "pairs": ("{", '"__metadata__":{"":""},', '"y":0}'),
}
"""Begin, what is repeated, and end of headers that say much in few bytes."""

LOAD = """
import resource, sys
from jcw_core.errors import FormatError
from jcw_kernels import Program
begin, middle, end, size = sys.argv[1:]
text = (begin + middle * (int(size) // len(middle)) + end).encode()
file = len(text).to_bytes(8, "little") + text
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Program(file)
except FormatError:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / len(text))
"""


@pytest.mark.parametrize("kind", MALFORMED)
def test_headers_cost_few_times_their_size(kind: str) -> None:
    size = 12 << 20
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *MALFORMED[kind], str(size)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 18


def test_headers_have_a_largest_size() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD, '["', "x", '"]', str(20 << 20)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 0.1

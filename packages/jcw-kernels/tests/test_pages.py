"""Weights lie in huge pages, of which the system is told where it has them, and only once for all threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import mmap, re, sys
import numpy as np
from pathlib import Path
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.network.weight_groups import density_mask
from jcw_kernels import compile_model

def advised():
    maps = re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    sizes = [re.search(r"^Size: +(\\d+) kB", one, re.M) for one in maps if re.search(r"^VmFlags:.* hg", one, re.M)]
    return sum(int(size[1]) * 1024 for size in sizes)

def program(inputs, outputs, size, density, **options):
    net = NetworkBuilder("net", (inputs, size, size))
    net.conv("conv", outputs, 3)
    network = net.build()
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape, np.float32) for name, shape in network.parameter_shapes.items()}
    weights = {name: array * density_mask(array, density) for name, array in weights.items()}
    return compile_model(Model(network, weights), **options)
"""
"""``advised``: bytes for which huge pages were asked for."""

CAN_ASK = """
before = advised()
with mmap.mmap(-1, 8 << 20) as memory:
    memory.madvise(mmap.MADV_HUGEPAGE)
    print(int(advised() > before))
"""


def printed(code: str) -> int:
    """The number that a new process prints, in which numpy asks for no huge pages of its own."""
    alone = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    command = [sys.executable, "-c", HEAD + code]
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.fixture(scope="module", autouse=True)
def _can_ask() -> None:
    """The system has huge pages, and tells of them; emulators do not."""
    if not Path("/proc/self/smaps").is_file():
        pytest.skip("the system tells of no pages")
    try:
        asked = printed(CAN_ASK)
    except subprocess.CalledProcessError:
        asked = 0
    if not asked:
        pytest.skip("no huge pages")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_weights_lie_in_huge_pages(precision: str) -> None:
    sparse, dense = (
        printed(f"made = program(512, 1024, 4, {density}, precision={precision!r}); print(advised())")
        for density in (0.1, 1.0)
    )
    # Memory of activations is as large in both.
    bytes_each = {"float32": 4, "float16": 2}[precision]
    assert dense - sparse > 0.5 * 512 * 1024 * 9 * bytes_each


def test_threads_that_take_images_of_their_own_share_weights() -> None:
    run = "made.run(np.ones((8, 512, 4, 4), np.float32))"
    code = (
        f"made = program(512, 1024, 4, 1.0, threads=4); before = advised(); {run}; print(advised() - before)"
    )
    assert 0 < printed(code) < 512 * 1024 * 9 * 4

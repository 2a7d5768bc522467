"""Weights lie in huge pages, of which the system is told where it has them."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import numpy as np
import pytest
from kernel_samples import conv_network, weights_for

from jcw_core.network.model import Model
from jcw_core.network.weight_groups import density_mask
from jcw_core.protocols import Precision
from jcw_kernels import compile_model

MAPS = Path("/proc/self/smaps")


def advised() -> int:
    """Bytes for which huge pages were asked for."""
    maps = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", MAPS.read_text())
    found = [
        re.search(r"^Size: +(\d+) kB", one, re.M) for one in maps if re.search(r"^VmFlags:.* hg", one, re.M)
    ]
    return sum(int(size[1]) * 1024 for size in found if size)


def can_ask() -> bool:
    """Whether the system has huge pages, and tells of them; emulators do not."""
    if not hasattr(mmap, "MADV_HUGEPAGE") or not MAPS.is_file():
        return False
    before = advised()
    with mmap.mmap(-1, 8 << 20) as memory:
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            return False
        return advised() > before


pytestmark = pytest.mark.skipif(not can_ask(), reason="no huge pages")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_weights_lie_in_huge_pages(precision: Precision, rng: np.random.Generator) -> None:
    network = conv_network((256, 8, 8), 512, (3, 3), padding=(1, 1))
    weights = dict(weights_for(network, rng))
    (name,) = (key for key in weights if key.endswith("weight"))
    megabytes = []
    for density in (0.1, 1.0):
        pruned = weights | {name: weights[name] * density_mask(weights[name], density)}
        before = advised()
        program = compile_model(Model(network, pruned), precision=precision)
        megabytes.append((advised() - before) >> 20)
        del program
    # Memory of activations is as large in both, and asked for in whole pages.
    assert megabytes[1] - megabytes[0] >= {"float32": 3, "float16": 1}[precision]


def test_threads_that_take_images_of_their_own_share_weights(rng: np.random.Generator) -> None:
    network = conv_network((512, 4, 4), 1024, (3, 3), padding=(1, 1))
    program = compile_model(Model(network, weights_for(network, rng)), threads=4)
    before = advised()
    program.run(np.ones((8, *network.input_shape), np.float32))
    taken, weights = advised() - before, 512 * 1024 * 9 * 4
    assert 0 < taken < weights

"""Sizes whose products are beyond 64 bits are refused, and the process that loads such a file goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_programs import model_file

from jcw_core.errors import FormatError
from jcw_kernels import Program

COUNT = 400


@pytest.mark.parametrize("seed", range(5))
def test_sizes_near_powers_of_two(seed: int) -> None:
    """In a process of its own, which a wrong size would end."""
    script = Path(__file__).with_name("random_sizes.py")
    done = subprocess.run(
        [sys.executable, str(script), str(seed), str(COUNT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert 0 < int(done.stdout) < COUNT


def test_products_beyond_64_bits_name_their_layer() -> None:
    """2^16 outputs from 2^24 inputs under a window of 2^12 x 2^12: 2^64 weights, which a processor counts as none."""
    window = {"kernel_size": [4096] * 2, "stride": [1, 1], "padding": [2048] * 2}
    units = [
        {"name": "flat", "op": "flatten", "inputs": [0]},
        {"name": "huge", "op": "conv2d", "inputs": [1], "out_channels": 1 << 16, **window},
    ]
    weights = {"huge.weight": np.zeros(0, np.float32), "huge.bias": np.zeros(1 << 16, np.float32)}
    with pytest.raises(FormatError, match="unit huge: its sizes multiply to more than a computer can count"):
        Program(model_file({"input": [256, 256, 256], "units": units, "output": 2}, weights))

"""Convolutions that torch's libraries get wrong: gradients are right, and nothing is written where it does not belong."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from convolution_steps import downsampling, small_planes
from hypothesis import example, given
from hypothesis import strategies as st
from programs import lack
from torch import Tensor

from jcw_core.network import Node
from jcw_core.network.builder import NetworkBuilder
from jcw_core.training.execution import BatchNorm, Tensors, execute
from jcw_core.training.module import Slimmable

STEPS = Path(__file__).parents[1] / "convolution_steps.py"
WATCHED = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"}
"""glibc's malloc looks at what surrounds each block, aborts when it was written to, and hands out no zeros."""

PROCESSORS = {
    "this": {},
    "without AVX-512": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 17), st.integers(1, 17)),
    channels=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)),
    stride=PAIRS,
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    rows=st.booleans(),
    bias=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@example((8, 16, 16), (1, 4, 8), (2, 2), (0, 0), True, False, 0)
def test_gradients(
    sizes: tuple[int, int, int],
    channels: tuple[int, int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    rows: bool,
    bias: bool,
    seed: int,
) -> None:
    """Against torch's own convolution in float64 and NCHW."""
    (count, height, width), (groups, inputs, outputs) = sizes, channels
    net = NetworkBuilder("one", (groups * inputs, height, width))
    window = {"kernel_size": (1, 1), "stride": stride, "padding": padding}
    net.add("conv", "conv2d", out_channels=groups * outputs, groups=groups, bias=bias, **window)
    network, rng = net.build(), np.random.default_rng(seed)
    shapes = [(count, *network.input_shape), *network.parameter_shapes.values()]
    arrays = [torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)) for shape in shapes]
    wide = [array.double().requires_grad_() for array in arrays]
    expected = F.conv2d(*wide, *[] if bias else [None], stride, padding, 1, groups)
    weights = torch.from_numpy(rng.standard_normal(expected.shape, dtype=np.float32))
    (expected * weights).sum().backward()

    images = arrays[0].contiguous(memory_format=torch.channels_last) if rows else arrays[0]
    narrow = [array.requires_grad_() for array in (images, *arrays[1:])]
    tensors = dict(zip(network.parameter_shapes, narrow[1:], strict=True))
    found = execute(network, tensors, narrow[0], BatchNorm()).view(expected.shape)
    (found * weights).sum().backward()
    pairs = [(found, expected), *((a.grad, b.grad) for a, b in zip(narrow, wide, strict=True))]
    for value, reference in pairs:
        assert value is not None
        assert reference is not None
        torch.testing.assert_close(value.double(), reference, rtol=1e-4, atol=1e-3)


def test_grouped_convolutions_train_in_fp32() -> None:
    """In bf16 their gradients take longer; where nothing is trained they are in bf16 like all others."""
    net = NetworkBuilder("one", (8, 8, 8))
    net.depthwise("conv", 3)
    tensors, images = (
        {"conv.weight": torch.full((8, 1, 3, 3), 1 / 3, requires_grad=True)},
        torch.ones(2, 8, 8, 8),
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert execute(net.build(), tensors, images, BatchNorm()).dtype == torch.float32
        with torch.no_grad():
            assert execute(net.build(), tensors, images, BatchNorm()).dtype == torch.bfloat16


def test_rows_stay_rows() -> None:
    """The layers after it take over the layout of what they read."""
    images = torch.ones(2, 4, 16, 16).contiguous(memory_format=torch.channels_last)
    net = NetworkBuilder("two", images.shape[1:])
    net.conv("conv", 8, 1, 2)
    net.batch_norm("bn")
    layouts = []

    def norm(node: Node, tensors: Tensors, value: Tensor) -> Tensor:
        layouts.append(value.is_contiguous(memory_format=torch.channels_last))
        return value

    execute(net.build(), {"conv.weight": torch.ones(8, 4, 1, 1)}, images, norm)  # type: ignore[arg-type]
    assert layouts == [True]


def test_an_export_has_convolutions_as_they_are() -> None:
    for network in (*islice(downsampling(), 1), *islice(small_planes(), 1, 3)):
        module = Slimmable(network, np.random.default_rng(0)).eval()
        program = torch.export.export(module, (torch.zeros(1, *network.input_shape),))
        called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
        assert not [name for name in called if "slice" in name or "autocast" in name or "pad" in name]
        assert sum("conv2d" in name for name in called) == sum(node.op == "conv2d" for node in network)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("networks", ["downsampling", "small planes"])
def test_steps_of_training(networks: str, processor: str) -> None:
    environment = os.environ | WATCHED | PROCESSORS[processor] | {"OMP_NUM_THREADS": "1"}
    loaded = subprocess.run(["true"], env=environment, capture_output=True, text=True, check=False)
    if loaded.returncode or loaded.stderr or not sys.platform.startswith("linux"):
        lack(f"malloc's checks are glibc's, 2.34 or later: {loaded.stderr.strip()}")
    command = [sys.executable, STEPS, networks]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Model files whose sizes lie near powers of two, with tensors as large as products say that wrap at 64 bits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_programs import model_file

from jcw_core.errors import JcwError
from jcw_kernels import Program

LARGEST_SIZE, LARGEST_WINDOW = 1 << 16, 1 << 12
"""What a model file may say of channels and features, and of windows, strides and paddings."""

LARGEST_FILE = 1 << 17


def near(rng: np.random.Generator, highest: int) -> int:
    """A power of two, or a number beside one; every other one is the highest."""
    exponent = highest if rng.random() < 0.5 else int(rng.integers(0, highest + 1))
    return int(np.clip((1 << exponent) + rng.choice([0] * 8 + [-1, 1]), 1, 1 << highest))


def wrapped(*sizes: int) -> int:
    """The product as a processor has it."""
    product = prod(sizes) % (1 << 64)
    return product - (1 << 64) if product >> 63 else product


def random_size_file(rng: np.random.Generator) -> bytes:
    """A model file of one layer, whose inputs may be a whole image in one row."""
    planes = [near(rng, 16), near(rng, 9), near(rng, 9)]
    units: list[dict[str, Any]] = []
    if rng.random() < 0.7:
        planes = [near(rng, 8) for _ in range(3)]
        units.append({"name": "flat", "op": "flatten", "inputs": [0]})
    inputs = prod(planes) if units else planes[0]
    op = str(rng.choice(["conv2d", "conv2d", "linear", "max_pool", "avg_pool"]))
    out = near(rng, 16)
    layer: dict[str, Any] = {"name": "u", "op": op, "inputs": [len(units)], "out_channels": out}
    kernel = [1, 1]
    if op != "linear":
        kernel = [near(rng, 12), near(rng, 12)]
        padding = [k // 2 if rng.random() < 0.8 else min(near(rng, 12), k) for k in kernel]
        layer |= {"kernel_size": kernel, "stride": [near(rng, 12), near(rng, 12)], "padding": padding}
    if op == "conv2d" and rng.random() < 0.3:
        layer["groups"] = int(np.gcd(inputs, out))
    units.append(layer)
    tensors = tensors_of((out, inputs // layer.get("groups", 1), *kernel), bool(rng.random() < 0.5))
    return model_file({"input": planes, "units": units, "output": len(units)}, tensors)


def tensors_of(shape: Sequence[int], pruned: bool) -> dict[str, NDArray[Any]]:
    """Those of a layer with weights of this shape, as large as wrapped products say, where a small file can hold them."""
    tensors: dict[str, NDArray[Any]] = {"u.bias": np.zeros(shape[0], np.float32)}
    size = wrapped(*shape)
    bits = wrapped(-(-shape[0] // 4), *shape[1:])
    if pruned and 0 <= bits < 8 * LARGEST_FILE:
        mask, values = np.zeros((bits + 7) // 8, np.uint8), np.zeros((0, 4), np.float32)
        return tensors | {"u.mask": mask, "u.values": values}
    if 0 <= size < LARGEST_FILE // 4:
        tensors["u.weight"] = np.zeros(size, np.float32)
    return tensors


def load_many(seed: int, count: int) -> None:
    """Load as many random files; print how many were refused."""
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(count):
        try:
            Program(random_size_file(rng))
        except JcwError:
            refused += 1
    print(refused)


if __name__ == "__main__":
    load_many(int(sys.argv[1]), int(sys.argv[2]))

"""``docs/operations.md`` lists what the code knows: `python tests/test_operations_page.py` writes it anew."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.operations import OPERATIONS, Attribute

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"
WINDOW: dict[str, Attribute] = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}
EXAMPLES: dict[str, dict[str, Attribute]] = {
    "conv2d": {**WINDOW, "out_channels": 8, "groups": 1, "bias": True},
    "conv_transpose2d": {**WINDOW, "out_channels": 8, "groups": 1, "bias": True},
    "linear": {"out_features": 5, "bias": True},
    "batch_norm": {"eps": 1e-5},
    "max_pool": WINDOW,
    "avg_pool": WINDOW,
    "clip": {"low": -1.0, "high": 1.0},
    "leaky_relu": {"slope": 0.1},
    "elu": {"alpha": 1.0},
    "slice": {"start": 2, "stop": 6},
    "channel_shuffle": {"groups": 2},
    "resize_nearest": {"scale": (2, 2)},
    "resize_bilinear": {"scale": (2, 2)},
    "pixel_shuffle": {"factor": 2},
}
INTRODUCTION = """# Operations

What a network is made of. Each operation is known to shape inference, to channel groups, to training, to the engine and
to the ONNX files that are written and read. An importer that meets anything else names it, with all that it meets.

What is imported is compared with where it comes from, for one image of noise, and refused where any output differs by more
than 1e-4 of the largest (by 2e-2 for ONNX files in half precision): a torch module runs itself, an ONNX file is run by
onnxruntime where that is installed, else by the reference in the package onnx, which takes seconds for a large network.
Where neither runs a file, a warning says so. `jcw profile` and `jcw networks` read no weights, and so compare nothing.

A layer whose weights another layer has too has the attribute `shares`, and both keep all channels and weights.
Padding is (height, width) or, where the sides differ, (top, left, bottom, right). Attributes in brackets may be left out.
Where channels are whole, what the operation reads keeps all of its channels, and so does what it makes.

"""


LIMITS = """## What has no place

Importers refuse what they would have to compute otherwise than it is written. What comes close to these, or has another way:

| refused | what to do |
|---|---|
| `Softmax` of planes before opset 13, which takes channels, rows and columns together; along another axis than channels | end the network before it (`--outputs`), or export it with opset 13 |
| resizing by a factor that is not the ratio of the sizes (5 pixels by 1.3 are 6), with `antialias`, or by the nearest pixel counted from centres (`nearest-exact`, `half_pixel`) where the factor is not whole | a size in place of the factor or `recompute_scale_factor=True`; `mode="nearest"` |
| padding by reflection or repetition; by another constant than 0 that the reading windows do not have (minus infinity for maxima); of channels, by another than 0 | padding of the convolution itself |
| means of windows that leave padding out (`count_include_pad` of 0) where there is some, or that hang over the edge (`ceil_mode`) | `count_include_pad=True` |
| convolutions over one or three axes, maxima with a dilation, adaptive pooling to sizes that do not divide | |
| constants that are neither one value nor one per channel; quotients of two values that depend on the image | |
| attention, recurrent layers, sequences, control flow | end the network before them (`--outputs`, `[network] outputs`), by the names of values in an ONNX file or of modules within a torch module: what follows stays as it is |
"""


def example(op: str) -> Network:
    """The operation behind a convolution that may be cut, and another one after it."""
    net = NetworkBuilder("example", (3, 8, 8))
    first = net.conv("first", 8, 3)
    if op in ("linear", "unflatten"):
        net.add("pool", "global_avg_pool")
        first = net.add("flat", "flatten")
    two = OPERATIONS[op].arity != 1
    net.add("made", op, first, *[first] * two, **EXAMPLES.get(op, {}))
    if len(net.shape("made")) == 1:
        net.linear("last", 4)
    else:
        net.conv("last", 4, 1)
    return net.build()


def channels(op: str) -> str:
    """What becomes of the channels that it reads."""
    coupling = couple(example(op))
    if coupling.groups["first"].fixed:
        return "whole"
    return "its own" if coupling.layout["made"][0].group == "made" else "follow"


def kernel(op: str) -> str:
    """What the engine computes it with."""
    from jcw_kernels import compile_model

    network = example(op)
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    model = Model(network, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    steps = compile_model(model).profile(rounds=1)
    # What is fused is part of the first; copies may surround what computes.
    own = [step.kernel for step in steps if step.layer == "made"] or ["fused"]
    kind = next((kernel for kernel in own if kernel != "copy"), "copy")
    return {"portable": "plain loops", "copy": "copies"}.get(kind, "kernels")


def attributes(op: str) -> str:
    known = OPERATIONS[op]
    return ", ".join(f"[{key}]" if key in known.defaults else key for key in known.attributes)


def page() -> str:
    """The page as the code has it, and what it does not have."""
    from jcw_core.formats.onnx_reader.network import OPERATORS as ONNX
    from jcw_core.formats.torch_import.module import OPERATORS as TORCH

    rows = ["| operation | attributes | channels | engine |", "|---|---|---|---|"]
    rows += [
        f"| `{op}` | {attributes(op)} | {channels(op)} | {kernel(op)} |"
        for op in sorted(OPERATIONS.keys() - {"input", "output"})
    ]
    read = [
        f"\n## {title}\n\n{', '.join(f'`{name}`' for name in sorted(known, key=str.lower))}\n"
        for title, known in (
            ("Operators of ONNX that are read", ONNX),
            ("Operators of torch (ATen) that are read", TORCH),
        )
    ]
    return INTRODUCTION + "\n".join(rows) + "\n" + "".join(read) + "\n" + LIMITS


def test_the_page_lists_what_there_is() -> None:
    for package in ("torch", "onnx", "jcw_kernels"):
        pytest.importorskip(package)
    assert PAGE.read_text(encoding="utf-8") == page(), f"run: python {' '.join(Path(__file__).parts[-2:])}"


if __name__ == "__main__":
    sys.exit(PAGE.write_text(page(), encoding="utf-8") == 0)

"""The files in ``fixtures``: one of each version, and one that computes in half precision, with what they make of an image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

FIXTURES = Path(__file__).parent / "fixtures"
SHAPE = (3, 9, 8)
IMAGE = (np.arange(216, dtype=np.float32) % 13 - 6).reshape(1, *SHAPE) / 4

_FLOATS = [-69.34522, -81.84067, -18.437303, 19.416403, 0.99165624]
OUTPUTS = {
    "model-1": _FLOATS,  # what the engine that wrote it made of the image
    "model-2": _FLOATS,
    # The same weights, stored in float16.
    "model-3": [-69.35302, -81.845955, -18.432955, 19.41423, 0.99039477],
    "model-4": [-69.29242, -81.64725, -18.366236, 19.455244, 1.0162862],  # int8 in the two convolutions
    "model-5": [-69.383453, -81.733559, -18.435602, 19.492968, 1.0183959],  # in the depthwise one as well
    "model-6": [-69.544655, -81.887993, -18.563871, 19.455809, 1.0048903],  # in the linear one, too
    # Slopes, and planes of other sizes.
    "model-7": [-6.946494, 0.65565044, 2.0653746, 2.2297883, 1.4983016],
    "model-5-float16": [-69.3125, -81.8125, -18.421875, 19.421875, 0.9892578125],  # the weights of version 3
}


def fixture_file(name: str) -> bytes:
    """The contents of one of them."""
    return (FIXTURES / f"{name}.jcw").read_bytes()


def check(name: str, outputs: ArrayLike) -> None:
    """Compare with what the engine that wrote the file made of ``IMAGE``.

    In half precision the last bits are a processor's own.
    """
    in_half = name.endswith("float16")
    got: NDArray[np.float32] = np.asarray(outputs, np.float32).reshape(-1)
    np.testing.assert_allclose(got, OUTPUTS[name], rtol=1e-3 if in_half else 1e-5)
    assert not in_half or (got == got.astype(np.float16)).all(), "the file asks for half precision"

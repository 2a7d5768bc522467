"""Random programs are computed as numpy does; what an operation does not take is refused by the unit's name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import poisoned
from random_programs import model_file, random_program

from jcw_core.errors import FormatError
from jcw_kernels import Program, available_isas

ATTRIBUTES = {
    "kernel_size": [3, 3],
    "stride": [2, 2],
    "padding": [1, 1],
    "groups": 2,
    "activation": "relu",
    "residual": 0,
    "start": 1,
    "scale": [2, 1],
    "dilation": [2, 1],
    "output_padding": [0, 1],
    "size": [3, 5],
    "align_corners": True,
}
LACKS = {
    "conv2d": {"start", "scale", "output_padding", "size", "align_corners"},
    "conv_transpose2d": {"start", "scale", "activation", "residual", "size", "align_corners"},
    "linear": ATTRIBUTES.keys() - {"activation", "residual"},
    **{
        op: ATTRIBUTES.keys() - {"kernel_size", "stride", "padding", "activation"}
        for op in ("max_pool", "avg_pool")
    },
    **{op: {*ATTRIBUTES} for op in ("clip", "leaky_relu", "elu", "softmax")},
    "slice": ATTRIBUTES.keys() - {"start"},
    "channel_shuffle": ATTRIBUTES.keys() - {"groups"},
    "resize_nearest": ATTRIBUTES.keys() - {"scale", "size"},
    "resize_bilinear": ATTRIBUTES.keys() - {"scale", "size", "align_corners"},
    "pixel_shuffle": ATTRIBUTES.keys() - {"scale"},
    **{op: {*ATTRIBUTES} for op in ("global_avg_pool", "flatten", "concat")},
    **{op: ATTRIBUTES.keys() - {"activation"} for op in ("add", "mul", "activation")},
}
"""What each operation has no use for."""


@given(seed=st.integers(0, 2**32 - 1))
def test_programs_compute_what_numpy_does(seed: int) -> None:
    draft = random_program(np.random.default_rng(seed))
    file, want = draft.file(), draft.values[-1].reshape(-1)
    largest = max(1.0, *(np.abs(value).max() for value in draft.values))
    for isa in available_isas():
        got = poisoned(Program(file, isa=isa), draft.image)
        assert np.abs(got - want).max() <= 3e-5 * largest, isa
        assert poisoned(Program(file, isa=isa, threads=3), draft.image).tobytes() == got.tobytes(), isa


@pytest.mark.parametrize(("op", "attribute"), [(op, a) for op, lacks in LACKS.items() for a in sorted(lacks)])
def test_no_operation_takes_what_it_lacks(op: str, attribute: str) -> None:
    inputs = [0, 0] if op in ("add", "mul") else [0]
    weights = {"u.weight": np.ones((4, 4), np.float32), "u.bias": np.ones(4, np.float32)}
    unit = {"name": "u", "op": op, "inputs": inputs, "out_channels": 4}
    program = {"input": [4, 1, 1], "units": [unit], "output": 1}
    assert Program(model_file(program, weights)).outputs == 4
    unit[attribute] = ATTRIBUTES[attribute]
    with pytest.raises(FormatError, match="unit u: takes no "):
        Program(model_file(program, weights))


@pytest.mark.parametrize(
    ("op", "slopes", "message"),
    [
        ("conv2d", None, "tensor u.slopes is missing"),
        ("linear", np.ones(5, np.float32), "u.slopes has 20 bytes of F32, expected 4 values"),
        ("conv2d", np.array([1, 2, np.nan, 4], np.float32), "u.slopes holds NaN"),
        ("add", np.ones(4, np.float32), "unit u: takes no slopes, as it makes a vector"),
        ("max_pool", np.ones(4, np.float32), "unit u: takes no slopes, as it makes a vector"),
    ],
)
def test_slopes_that_do_not_fit(op: str, slopes: np.ndarray | None, message: str) -> None:
    inputs = [0, 0] if op == "add" else [0]
    weights = {"u.weight": np.ones((4, 4), np.float32), "u.bias": np.ones(4, np.float32)}
    weights |= {} if slopes is None else {"u.slopes": slopes}
    unit = {"name": "u", "op": op, "inputs": inputs, "out_channels": 4, "activation": "prelu"}
    with pytest.raises(FormatError, match=message):
        Program(model_file({"input": [4, 1, 1], "units": [unit], "output": 1}, weights))

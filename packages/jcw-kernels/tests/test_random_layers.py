"""Random layer problems: jcw-device refuses what ``LayerProblem`` refuses, and times what the host times."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from device_program import answer, complaint
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import PAIRS, rounding

from jcw_core.errors import NetworkError
from jcw_core.network.operations import ACTIVATIONS, OPERATIONS
from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program
from jcw_kernels.layer_program import layer_file

OPS = ["conv2d", "linear", *sorted({*OPERATIONS, "scale", "activation"} - {"input", "output"})]
SIZES = st.sampled_from([1, 1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33])

REQUIRED = dict.fromkeys(("in_channels", "in_height", "in_width", "out_channels"), SIZES)
OPTIONAL = {
    "dilation": st.tuples(st.integers(1, 3), st.integers(1, 3)),
    "output_padding": st.tuples(st.integers(0, 1), st.integers(0, 1)),
    "size": st.tuples(st.integers(0, 9), st.integers(0, 9)),
    "kernel_size": st.tuples(st.integers(1, 5), st.integers(1, 5)),
    "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
    "padding": st.tuples(st.integers(0, 3), st.integers(0, 3)),
    "groups": SIZES,
    "density": st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    "activation": st.sampled_from(["", "prelu", *sorted(ACTIVATIONS)]),
    "residual": st.booleans(),
}


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a layer problem, possible or not; sometimes of a depthwise convolution, or a second one after it."""
    made = draw(st.fixed_dictionaries({"op": st.sampled_from(OPS), **REQUIRED}, optional=OPTIONAL))
    if made["op"] in ("linear", "unflatten") and draw(st.booleans()):
        made |= {"in_height": 1, "in_width": 1}
    if made["op"] not in ("conv2d", "linear") and draw(st.booleans()):
        made["out_channels"] = made["in_channels"]
    if made["op"] == "pixel_shuffle" and draw(st.booleans()):
        factor = draw(st.integers(1, 3))
        channels = made["out_channels"] * factor**2
        made |= {"stride": (factor, factor), "in_channels": channels}
    kind = draw(st.sampled_from(["", "", "depthwise", "pair"]))
    if kind == "depthwise":
        made |= {"out_channels": made["in_channels"], "groups": made["in_channels"]}
    elif kind == "pair":
        width = made["out_channels"]
        read = {"op": "conv2d", "in_channels": width, "out_channels": width, "groups": width}
        size = {key: made[key] for key in ("in_height", "in_width")}
        then = draw(st.fixed_dictionaries({}, optional={**OPTIONAL, "density": st.just(1.0)}))
        made = {
            key: value for key, value in made.items() if key in REQUIRED or key in ("density", "activation")
        }
        made |= {"op": "conv2d", "then": {"kernel_size": (3, 3), **then, **read, **size}}
    return made


def problem_of(made: dict[str, Any]) -> LayerProblem:
    then = made.get("then")
    return LayerProblem(**{**made, "then": then and LayerProblem(**then)})


def host_work(problem: LayerProblem) -> tuple[str, int]:
    """Kernels and multiply-accumulates of a layer as the host times it."""
    file, _ = layer_file(problem, np.random.default_rng(0))
    steps = [step for step in Program(file).profile(rounds=1) if step.layer in ("layer", "then")]
    return ", ".join(s.kernel for s in steps if s.kernel != "copy") or "copy", int(sum(s.macs for s in steps))


@given(made=fields())
def test_layers_are_timed_as_on_the_host_or_refused(
    program: str, made: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "layer").write_text(json.dumps(made))
    command = [program, "layers", str(tmp_path / "layer"), "--once"]
    try:
        problem = problem_of(made)
    except NetworkError:
        assert complaint(*command).startswith("jcw-device: layer 0: ")
        return
    about, once = answer(*command)
    assert once["seconds"][0] > 0
    kernels, macs = host_work(problem)
    assert about["kernels"] == [kernels]
    if problem.groups == 1 or problem.is_depthwise:  # others weigh each kept group by its channels
        assert about["macs"] == [macs]
    # From one channel to one, convolutions are run as depthwise ones, which skip no weights.
    single = problem.op == "conv2d" and problem.in_channels == problem.out_channels == 1
    if problem.groups == 1 and problem.op != "batch_norm" and not single:
        assert abs(macs - problem.macs) <= rounding(problem)


def test_any_value_in_a_pair_is_refused_or_timed(
    program: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    values = [None, True, -1, 0, 1, 2.5, 1e308, 1 << 40, "", "relu", [], [3], [3, 3], [1 << 20, 1], {}, [{}]]
    refused = 0
    for _ in range(80):
        fields = asdict(PAIRS[1])
        place = fields if rng.random() < 0.3 else fields["then"]
        place[str(rng.choice(sorted(place)))] = values[rng.integers(len(values))]
        (tmp_path / "layers").write_text(json.dumps(fields))
        done = subprocess.run(
            [program, "layers", tmp_path / "layers", "--once"], capture_output=True, text=True
        )
        assert done.returncode in (0, 2), fields
        assert done.returncode == 0 or "jcw-device: layer 0: " in done.stderr, fields
        refused += done.returncode == 2
    assert 0 < refused < 80

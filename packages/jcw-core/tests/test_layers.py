"""Fused layers: they cover the network, can be executed in order, and compute the same."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from core_networks import networks, small_resnet
from hypothesis import given, settings

from jcw_core.backbones.mobilenet_v1 import mobilenet_v1
from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.backbones.resnet import resnet18
from jcw_core.errors import NetworkError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.layers import FusedLayer, fuse, problem_of
from jcw_core.network.operations import OPERATIONS, SLOPES
from jcw_core.network.problem import LayerProblem
from jcw_core.network.problem_text import describe

BACKBONES = [resnet18, mobilenet_v1, mobilenet_v2]


def _terms(network: Network) -> dict[str, object]:
    """What each node computes, as a nested tuple; sums do not depend on the order of their inputs."""
    terms: dict[str, object] = {}
    for node in network:
        inputs = [terms[name] for name in node.inputs]
        terms[node.name] = _sum(*inputs) if node.op == "add" else (node.op, _own(node), *inputs)
    return terms


def _own(node) -> object:
    return node.name if node.op not in ("relu", "relu6") else None


def _sum(first: object, second: object) -> object:
    return (
        ("add", frozenset([(first, 1), (second, 2)]))
        if first == second
        else ("add", frozenset([first, second]))
    )


def _run_units(network: Network, units: tuple[FusedLayer, ...]) -> dict[str, object]:
    values: dict[str, object] = {network.input.name: _terms(network)[network.input.name]}
    for unit in itertools.chain.from_iterable(whole.parts for whole in units):
        term = (unit.node.op, _own(unit.node), *(values[name] for name in unit.inputs))
        if unit.node.op == "add":
            term = _sum(*(values[name] for name in unit.inputs))
        if unit.batch_norm is not None:
            term = ("batch_norm", unit.batch_norm.name, term)
        if unit.residual is not None:
            term = _sum(term, values[unit.residual])
        if unit.activation:
            node = network[unit.output]
            term = (unit.activation, _own(node), term)
        assert unit.output not in values
        values[unit.output] = term
    return values


def _check(network: Network) -> None:
    units = fuse(network)
    values, terms = _run_units(network, units), _terms(network)
    assert all(terms[name] == value for name, value in values.items())
    # Whatever is read outside its unit is some unit's output.
    assert network.output.inputs[0] in values
    covered = sum(
        1 + (part.batch_norm is not None) + (part.residual is not None) + bool(part.activation)
        for unit in units
        for part in unit.parts
    )
    assert all(unit.output == unit.parts[-1].output for unit in units)
    assert covered == len(network.nodes) - 2


@settings(max_examples=300)
@given(networks())
def test_units_compute_what_the_nodes_do(network: Network) -> None:
    _check(network)


@pytest.mark.parametrize("build", BACKBONES)
def test_units_of_the_backbones(build) -> None:
    network = build()
    _check(network)
    units = fuse(network)
    # Every batch norm, add and activation of these three disappears into a layer.
    assert {unit.node.op for unit in units} <= {"conv2d", "linear", "max_pool", "global_avg_pool", "flatten"}
    parts = [part for unit in units for part in unit.parts]
    assert all(part.batch_norm is not None for part in parts if part.node.op == "conv2d")
    adds = {node.name for node in network if node.op == "add"}
    assert sum(unit.residual is not None for unit in units) == len(adds)


@pytest.mark.parametrize(
    ("build", "pairs", "alone"), [(mobilenet_v1, 12, 1), (mobilenet_v2, 16, 1), (resnet18, 0, 0)]
)
def test_depthwise_convolutions_run_with_the_pointwise_ones_before_them(
    build, pairs: int, alone: int
) -> None:
    """All but the first of a MobileNet, which follows a 3 x 3 convolution."""
    network = build()
    units = fuse(network)
    assert sum(unit.then is not None for unit in units) == pairs
    assert sum(network.is_depthwise(unit.node) for unit in units) == alone


def pointwise_then(**attributes: int) -> NetworkBuilder:
    """Input, ``point`` and ``depth``: two convolutions, the second depthwise."""
    net = NetworkBuilder("pair", (4, 6, 6))
    net.conv("point", 8, **{"kernel": 1, **attributes})
    net.depthwise("depth", 3, 2)
    return net


def test_batch_norm_residual_and_activation_fuse_into_a_second_convolution() -> None:
    net = NetworkBuilder("pair", (4, 6, 6))
    start = net.conv("start", 8, 3)
    net.conv("point", 8, 1)
    net.batch_norm("bn1")
    net.add("relu1", "relu")
    net.depthwise("depth", 3)
    net.add("sum", "add", net.batch_norm("bn2"), start)
    net.add("relu2", "relu6")
    _, unit = fuse(net.build())
    assert (unit.name, unit.output, unit.activation, unit.residual) == ("point", "relu2", "relu", None)
    assert unit.then is not None
    assert (unit.then.name, unit.then.inputs) == ("depth", ("relu1",))
    assert (unit.then.activation, unit.then.residual) == ("relu6", "start")
    first, second = unit.parts
    assert (first.output, first.then, second) == ("relu1", None, unit.then)


@pytest.mark.parametrize("attributes", [{}, {"groups": 2}, {"stride": 2}, {"padding": 1}, {"kernel": 3}])
def test_only_plain_pointwise_convolutions_take_a_second_one(attributes: dict[str, int]) -> None:
    units = fuse(pointwise_then(**attributes).build())
    assert len(units) == (2 if attributes else 1)


@pytest.mark.parametrize(
    "second", [{"kernel": 1, "groups": 8}, {"kernel": 3, "groups": 2}, {"kernel": 3, "groups": 1}]
)
def test_only_depthwise_convolutions_with_a_window_are_taken(second: dict[str, int]) -> None:
    net = NetworkBuilder("two", (4, 6, 6))
    net.conv("point", 8, 1)
    net.conv("second", 8, **second)
    assert len(fuse(net.build())) == 2


def test_a_second_depthwise_convolution_stays_alone() -> None:
    net = pointwise_then()
    net.depthwise("again", 3)
    assert [unit.name for unit in fuse(net.build())] == ["point", "again"]


@pytest.mark.parametrize("reader", ["add", "conv"])
def test_an_output_with_several_readers_ends_its_layer(reader: str) -> None:
    net = pointwise_then()
    if reader == "conv":
        net.add("join", "concat", "depth", net.conv("other", 3, 1, 2, source="point"))
    else:
        net.add("sum", "add", net.depthwise("same", 3, source="point"), "point")
    assert all(unit.then is None for unit in fuse(net.build()))


def test_a_sum_is_made_before_a_depthwise_convolution_reads_it() -> None:
    net = NetworkBuilder("residual", (4, 6, 6))
    start = net.conv("start", 8, 3)
    net.add("sum", "add", net.conv("point", 8, 1), start)
    net.depthwise("depth", 3)
    units = fuse(net.build())
    assert [(unit.name, unit.residual, unit.then) for unit in units][1:] == [
        ("point", "start", None),
        ("depth", None, None),
    ]


@pytest.mark.parametrize("build", BACKBONES)
def test_problems_of_the_backbones(build) -> None:
    network = build()
    problems = [problem_of(network, unit) for unit in fuse(network)]
    assert sum(problem.macs for problem in problems) == network.macs
    for unit, problem in zip(fuse(network), problems, strict=True):
        _check_problem(network, unit, problem)
        own, then = replace(problem, then=None), problem.then.macs if problem.then else 0
        assert problem_of(network, unit, 0.5).macs == pytest.approx(own.macs / 2 + then)


@given(networks())
def test_every_unit_has_a_problem(network: Network) -> None:
    for unit in fuse(network):
        _check_problem(network, unit, problem_of(network, unit))


def _check_problem(network: Network, unit: FusedLayer, problem: LayerProblem) -> None:
    problems = [replace(problem, then=None), *filter(None, [problem.then])]
    for part, own in zip(unit.parts, problems, strict=True):
        shape = network.shapes[part.output]
        assert (own.out_channels, own.out_height, own.out_width) == (*shape, 1, 1)[:3]
        assert own.macs == network.node_macs(part.node)
        assert own.is_depthwise == network.is_depthwise(part.node)
        assert own.activation == ("prelu" if part.activation in SLOPES else part.activation)
        assert own.residual == (part.residual is not None)
    assert problem.macs == sum(own.macs for own in problems)


def test_an_activation_whose_input_has_other_readers_is_not_fused() -> None:
    net = NetworkBuilder("bypass", (3, 4, 4))
    conv = net.conv("conv", 4, 1)
    net.add("relu", "relu")
    net.add("sum", "add", "relu", conv)
    units = {unit.name: unit for unit in fuse(net.build())}
    assert set(units) == {"conv", "relu", "sum"}
    assert units["conv"].output == "conv"


def test_activations_with_slopes_are_fused_where_each_has_its_plane() -> None:
    net = NetworkBuilder("slopes", (3, 4, 4))
    net.conv("conv", 4, 3)
    net.batch_norm("bn")
    first = net.add("prelu", "prelu")
    net.depthwise("dw", 3)
    net.add("leaky", "leaky_relu", slope=0.1)
    net.add("sum", "add", "leaky", first)
    net.add("sum_prelu", "prelu")
    net.pool("pool", "max_pool", 2, 2)
    net.add("pool_prelu", "prelu")
    net.add("mean", "global_avg_pool")
    net.add("flat", "flatten")
    net.linear("fc1", 4)
    flat = net.add("fc1_prelu", "prelu")
    net.linear("fc2", 4)
    net.add("flat_sum", "add", "fc2", flat)
    net.add("flat_prelu", "prelu")
    network = net.build()
    found = {unit.name: unit for unit in fuse(network)}
    fused = {name: unit.activation for name, unit in found.items() if unit.activation}
    assert fused == {"conv": "prelu", "dw": "leaky_relu", "sum": "prelu", "fc1": "prelu"}
    assert {"pool_prelu", "flat_prelu"} < set(found)
    assert {problem_of(network, found[name]).activation for name in fused} == {"prelu"}


def test_a_product_by_channel_is_a_scale() -> None:
    network = small_resnet()
    problems = {unit.name: problem_of(network, unit) for unit in fuse(network)}
    assert problems["se.scale"].op == "scale"
    assert problems["join"].in_channels == 20
    assert problems["flatten"].out_channels == 320


@pytest.mark.parametrize(
    "change",
    [
        {"in_channels": 0}, {"out_channels": -4}, {"density": 1.1}, {"density": -0.1}, {"density": float("nan")},
        {"op": "conv3d"}, {"activation": "tanh"}, {"activation": "leaky_relu"}, {"groups": 3}, {"stride": (0, 1)}, {"padding": (0, -1)},
    ],
)  # fmt: skip
def test_impossible_problems(change: dict[str, object]) -> None:
    good = {"op": "conv2d", "in_channels": 8, "in_height": 4, "in_width": 4, "out_channels": 8}
    assert LayerProblem(**good).macs == 8 * 8 * 16
    with pytest.raises(NetworkError, match="layer problem"):
        LayerProblem(**{**good, **change})


def test_windows_that_do_not_fit_are_impossible() -> None:
    with pytest.raises(NetworkError, match="whose window does not fit"):
        LayerProblem("conv2d", 4, 3, 3, 4, kernel_size=(5, 5))
    for op in ("max_pool", "avg_pool"):
        with pytest.raises(NetworkError, match="padding is more than half"):
            LayerProblem(op, 4, 3, 3, 4, kernel_size=(3, 3), padding=(0, 2))


def test_linear_layers_read_a_flat_input() -> None:
    with pytest.raises(NetworkError, match="not flat"):
        LayerProblem("linear", 4, 1, 2, 4)


def test_operations_without_weights_make_the_channels_that_they_read() -> None:
    assert LayerProblem("flatten", 4, 2, 3, 24).out_channels == 24
    for op in ("relu", "add", "concat", "batch_norm", "max_pool", "scale", "flatten"):
        with pytest.raises(NetworkError, match="another number of channels than the"):
            LayerProblem(op, 4, 2, 3, 6)


WINDOW = {"kernel_size": (3, 3), "stride": (2, 1), "padding": (0, 1)}
FIELDS = {
    **WINDOW,
    "groups": 2,
    "activation": "relu",
    "residual": True,
    "dilation": (1, 2),
    "output_padding": (1, 0),
    "size": (3, 7),
}
TAKES = {
    "conv2d": FIELDS.keys() - {"output_padding", "size"},
    "conv_transpose2d": FIELDS.keys() - {"activation", "residual", "size"},
    **{op: {*WINDOW, "activation"} for op in ("max_pool", "avg_pool")},
    **{op: {"activation", "residual"} for op in ("linear", "batch_norm")},
    **{op: {"activation"} for op in ("add", "mul", "scale")},
    **{op: {"stride", "size"} for op in ("resize_nearest", "resize_bilinear")},
    "pixel_shuffle": {"stride"},
}


@pytest.mark.parametrize("op", sorted({*OPERATIONS, "scale"}))
def test_operations_take_no_fields_that_they_do_not_have(op: str) -> None:
    taken = TAKES.get(op, set())
    size = 1 if op in ("linear", "unflatten") else 5
    own = {name: FIELDS[name] for name in taken - {"size"}}
    own |= {"stride": (2, 2)} if op == "pixel_shuffle" else {}
    whole = LayerProblem(op, 8, size, size, {"flatten": 200, "pixel_shuffle": 2}.get(op, 8), **own)
    for name in FIELDS.keys() - taken:
        with pytest.raises(NetworkError, match=f"layer problem with {name}, which {op} does not take"):
            replace(whole, **{name: FIELDS[name]})


@pytest.mark.parametrize(
    ("op", "sizes", "change"),
    [
        ("pixel_shuffle", (5, 2, 3, 1), {"stride": (2, 2)}),
        ("pixel_shuffle", (8, 2, 3, 4), {"stride": (1, 2)}),
        ("unflatten", (8, 2, 1, 8), {}),
        ("conv_transpose2d", (4, 2, 3, 4), {"output_padding": (0, 1)}),
        ("conv_transpose2d", (4, 2, 3, 4), {"padding": (1, 1)}),
        ("conv_transpose2d", (4, 2, 3, 6), {"groups": 4}),
        ("conv2d", (4, 5, 5, 4), {"kernel_size": (3, 3), "dilation": (1, 3)}),
        ("resize_nearest", (4, 5, 5, 4), {"size": (3, 0)}),
        ("add", (4, 1, 1, 4), {"activation": "prelu"}),
        ("avg_pool", (4, 5, 5, 4), {"kernel_size": (5, 5), "activation": "prelu"}),
        ("resize_bilinear", (4, 5, 5, 4), {"size": (3, 7), "stride": (2, 2)}),
    ],
)
def test_impossible_shapes(op: str, sizes: tuple[int, ...], change: dict[str, object]) -> None:
    with pytest.raises(NetworkError):
        LayerProblem(op, *sizes, **change)


def test_sizes_of_dilated_and_transposed_layers() -> None:
    dilated = LayerProblem("conv2d", 4, 9, 8, 6, (3, 2), dilation=(2, 3), padding=(1, 0))
    assert (dilated.out_height, dilated.out_width) == (7, 5)
    up = LayerProblem("conv_transpose2d", 4, 5, 6, 8, (3, 4), (2, 2), (1, 1), output_padding=(1, 0))
    assert (up.out_height, up.out_width) == (10, 12)
    assert up.macs == 4 * 8 * 12 * 30


def test_sizes_of_resized_planes() -> None:
    enlarged = LayerProblem("resize_bilinear", 4, 5, 6, 4, stride=(2, 3))
    assert (enlarged.out_height, enlarged.out_width) == (10, 18)
    to = LayerProblem("resize_nearest", 4, 5, 6, 4, size=(7, 2))
    assert (to.out_height, to.out_width) == (7, 2)
    assert describe(to) == "resize_nearest 4 -> 4 at 5 x 6 to 7 x 2"


DEPTHWISE = LayerProblem("conv2d", 8, 4, 5, 8, (3, 3), (2, 2), (1, 1), groups=8)
PAIR = LayerProblem("conv2d", 6, 4, 5, 8, density=0.5, activation="relu", then=DEPTHWISE)


def test_two_convolutions_in_one_problem() -> None:
    assert PAIR.macs == 0.5 * 6 * 8 * 20 + 8 * 9 * 2 * 3
    assert not PAIR.is_depthwise
    assert (PAIR.out_height, PAIR.out_width) == (4, 5)
    narrow = replace(DEPTHWISE, in_channels=1, out_channels=1, groups=1)
    assert replace(PAIR, out_channels=1, then=narrow).macs == 0.5 * 6 * 20 + 9 * 2 * 3
    assert replace(PAIR, then=replace(DEPTHWISE, residual=True)) != PAIR


@pytest.mark.parametrize(
    "change",
    [
        {"op": "relu", "activation": "", "out_channels": 6}, {"groups": 2}, {"residual": True}, {"stride": (1, 2), "in_width": 9},
        {"kernel_size": (3, 3), "in_height": 6, "in_width": 7}, {"padding": (1, 0), "in_height": 2},
    ],
)  # fmt: skip
def test_problems_that_cannot_have_a_second_convolution(change: dict[str, object]) -> None:
    with pytest.raises(
        NetworkError, match="not 1 x 1, ungrouped, of stride 1, without padding and without residual"
    ):
        replace(PAIR, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"op": "max_pool", "groups": 1}, {"groups": 4}, {"groups": 1}, {"out_channels": 16}, {"density": 0.5},
        {"kernel_size": (1, 1)}, {"in_channels": 4, "out_channels": 4, "groups": 4}, {"in_height": 5}, {"in_width": 4},
    ],
)  # fmt: skip
def test_convolutions_that_cannot_follow(change: dict[str, object]) -> None:
    with pytest.raises(NetworkError, match="layer problem whose second convolution"):
        replace(PAIR, then=replace(DEPTHWISE, **change))


def test_a_third_convolution_in_one_problem_is_refused() -> None:
    narrow = replace(PAIR, in_channels=1, out_channels=1, then=None, density=1.0)
    third = LayerProblem("conv2d", 1, 4, 5, 1, (3, 3))
    second = replace(narrow, then=third)
    with pytest.raises(NetworkError, match="layer problem whose second convolution"):
        replace(narrow, then=second)


def test_sizes_that_do_not_meet_are_named() -> None:
    with pytest.raises(NetworkError, match="reads 8 x 4 x 4, but the first one makes 8 x 4 x 5"):
        replace(PAIR, then=replace(DEPTHWISE, in_width=4))


def test_equal_problems_are_one() -> None:
    network = resnet18()
    problems = {problem_of(network, unit) for unit in fuse(network)}
    assert len(problems) < len(fuse(network))
    assert np.isfinite(sum(p.macs for p in problems))

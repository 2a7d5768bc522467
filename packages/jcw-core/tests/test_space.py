"""The search space: values, the unit cube, bounds."""

from __future__ import annotations

import re

import numpy as np
import pytest
from core_networks import networks, small_resnet
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.errors import ArchitectureError
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.operations import CONVOLUTIONS
from jcw_core.network.shrink import shrink
from jcw_core.space.bounds import Bound, BoundError
from jcw_core.space.space import SearchSpace, Variable, is_prunable, prunable_layers
from jcw_core.space.whole import fixed_layers, layers_of, unpruned_layers, with_pruned_first

SHARES = st.floats(0.01, 1)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    network = draw(networks() | st.integers(5, 30).map(small_resnet))
    defaults = [Bound("*", draw(SHARES), draw(SHARES))] if draw(st.booleans()) else []
    return SearchSpace.of(network, defaults=defaults, step=draw(st.sampled_from([1, 3, 4, 8])))


def values_of(variable: Variable) -> np.ndarray:
    """All values that a variable may take: multiples of its step within its bounds, and the bounds."""
    multiples = np.round(np.arange(0, variable.maximum + variable.step, variable.step), 9)
    inside = multiples[(multiples >= variable.low) & (multiples <= variable.high)]
    return np.unique([*inside, variable.low, variable.high])


@settings(max_examples=200)
@given(spaces(), st.integers(0, 2**32 - 1))
def test_decode_finds_the_nearest_value(space: SearchSpace, seed: int) -> None:
    features = np.random.default_rng(seed).uniform(-0.2, 1.2, (20, space.dimensions))
    features[0], features[1] = 0, 1
    values = space.decode(features)
    for column, variable in enumerate(space.variables):
        allowed = values_of(variable)
        assert np.isin(values[:, column], allowed).all()
        wanted = np.clip(features[:, column], 0, 1)[:, None] * variable.maximum
        distance = np.abs(values[:, column] - wanted[:, 0])
        assert (distance <= np.abs(allowed - wanted).min(1) + 1e-9).all()


@given(spaces(), st.integers(0, 2**32 - 1))
def test_sampled_architectures_survive_every_conversion(space: SearchSpace, seed: int) -> None:
    population = space.sample(10, np.random.default_rng(seed))
    assert population.shape == (10, space.dimensions)
    assert ((population >= space.low) & (population <= space.high)).all()
    np.testing.assert_array_equal(space.decode(space.encode(population)), population)
    for row in population:
        architecture = space.architecture(row)
        np.testing.assert_array_equal(space.row(architecture), row)
        assert Architecture.from_dict(architecture.to_dict()) == architecture


@given(spaces())
def test_the_whole_network_is_in_the_space(space: SearchSpace) -> None:
    np.testing.assert_array_equal(space.decode(np.ones((1, space.dimensions)))[0], space.maximum)
    np.testing.assert_array_equal(space.row(Architecture({}, {})), space.maximum)
    assert shrink(space.network, space.architecture(space.maximum)) == space.network


@given(spaces(), st.integers(0, 2**32 - 1))
def test_channels_are_those_of_the_cut_network(space: SearchSpace, seed: int) -> None:
    population = space.sample(4, np.random.default_rng(seed))
    cut = [shrink(space.network, space.architecture(row)) for row in population]
    for node in space.network:
        expected = [network.shapes[node.name][0] for network in cut]
        assert space.channels(population, node.name).tolist() == expected


def test_samples_range_from_small_to_large() -> None:
    space = SearchSpace.of(small_resnet(32))
    share = ((space.sample(500, np.random.default_rng(0)) - space.low) / (space.high - space.low)).mean(1)
    assert np.quantile(share, 0.05) < 0.3 < 0.7 < np.quantile(share, 0.95)


NETWORKS = {"resnet18": RESNET18.build(), "mobilenet_v2": MOBILENET_V2.build()}
BOUNDS = {"resnet18": RESNET18.bounds, "mobilenet_v2": MOBILENET_V2.bounds}


def positions(space: SearchSpace, size: int, seed: int) -> np.ndarray:
    """Where the variables of random architectures lie between their bounds, 0 to 1."""
    return (space.sample(size, np.random.default_rng(seed)) - space.low) / (space.high - space.low)


@pytest.mark.parametrize("name", NETWORKS)
def test_widths_and_densities_are_drawn_apart(name: str) -> None:
    space = SearchSpace.of(NETWORKS[name], defaults=BOUNDS[name])
    drawn = positions(space, 20_000, 3)
    width, density = drawn[:, space.is_width].mean(1), drawn[:, ~space.is_width].mean(1)
    assert abs(np.corrcoef(width, density)[0, 1]) < 0.03
    for wide in (False, True):
        for dense in (False, True):
            assert np.mean(((width > 0.75) == wide) & ((density > 0.75) == dense)) > 0.05
    # Variables scatter around the level of their kind, where they are not whole.
    for kind in (space.is_width, ~space.is_width):
        scattered = drawn[~(drawn[:, kind] == 1).all(axis=1)]
        assert scattered[:, kind].std(axis=1).mean() > 0.15


@given(spaces(), st.integers(0, 2**32 - 1))
def test_whole_widths_and_whole_densities_come_up(space: SearchSpace, seed: int) -> None:
    drawn = space.sample(200, np.random.default_rng(seed)) == space.high
    for kind in (space.is_width, ~space.is_width):
        if kind.any() and not kind.all():
            assert drawn[:, kind].all(axis=1).sum() >= 5
            assert (space.low[~kind] == space.high[~kind]).all() or not drawn[drawn[:, kind].all(1)].all()


@given(spaces(), st.integers(0, 2**32 - 1), st.booleans())
def test_only_what_is_free_varies(space: SearchSpace, seed: int, widths: bool) -> None:
    free = space.is_width if widths else ~space.is_width
    drawn = space.sample(30, np.random.default_rng(seed), free)
    assert (drawn[:, ~free] == space.high[~free]).all()
    again = space.sample(30, np.random.default_rng(seed), free)
    np.testing.assert_array_equal(drawn, again)
    for column in np.flatnonzero(free & (space.high - space.low > 4 * space.step)):
        assert len(np.unique(drawn[:, column])) > 2


def test_variables_of_the_small_network() -> None:
    space = SearchSpace.of(
        small_resnet(16), [Bound("block.*", 0.5, 0.3)], defaults=[Bound("branch", 0.9, 0.7)]
    )
    assert [(v.kind, v.name, v.low, v.high) for v in space.variables] == [
        ("width", "stem", 8, 16),  # block.conv2 writes it, and is bound the tightest
        ("width", "block.conv1", 16, 32),
        ("width", "branch", 12, 12),  # 0.9 of 12, rounded up to a multiple of 4
        ("density", "block.conv1", 0.3, 1),
        ("density", "block.conv2", 0.3, 1),
        ("density", "se.reduce", 0.1, 1),
        ("density", "se.expand", 0.1, 1),
        ("density", "branch", 0.7, 1),
        ("density", "fc", 0.1, 1),
    ]


def ancestors(network: Network, name: str) -> set[str]:
    """Operations of all nodes that lie between the input and a node."""
    return {network[source].op for source in network[name].inputs}.union(
        *(ancestors(network, source) for source in network[name].inputs)
    )


@given(networks())
def test_prunable_layers_are_ungrouped_ones_after_the_first(network) -> None:
    for node in network:
        grouped = node.op == "conv2d" and node.attributes["groups"] != 1
        first = node.op == "conv2d" and CONVOLUTIONS.isdisjoint(ancestors(network, node.name))
        expected = node.op in ("conv2d", "linear") and not grouped and not first
        assert is_prunable(network, node) == expected
        assert (node.name in prunable_layers(network)) == expected


@given(networks())
def test_first_convolutions_are_pruned_where_that_is_asked_for(network) -> None:
    asked = with_pruned_first(network)
    for node in network:
        grouped = node.op == "conv2d" and node.attributes["groups"] != 1
        assert is_prunable(asked, asked[node.name]) == (node.op in ("conv2d", "linear") and not grouped)
    assert asked.shapes == network.shapes
    assert Network.from_json(asked.to_json()) == asked
    opened = len(prunable_layers(asked)) - len(prunable_layers(network))
    assert SearchSpace.of(asked).dimensions == SearchSpace.of(network).dimensions + opened


@pytest.mark.parametrize("before", ["batch_norm", "relu", "pool", "two"])
def test_the_first_convolution_is_not_pruned_whatever_stands_before_it(before: str) -> None:
    net = NetworkBuilder("normalised", (3, 8, 8))
    if before == "pool":
        net.pool("pool", "max_pool", 2, 2)
    elif before == "relu":
        net.add("before", "relu")
    else:
        net.batch_norm("before")
    if before == "two":
        net.add("and", "relu")
    net.conv("first", 8, 3)
    net.conv("second", 8, 3)
    assert prunable_layers(net.build()) == ("second",)


@pytest.mark.parametrize("key", ["width", "density"])
@pytest.mark.parametrize("value", [0, -0.1, 1.01, float("nan")])
def test_impossible_bounds(key: str, value: float) -> None:
    with pytest.raises(ArchitectureError, match=f"{key} = {value} is impossible"):
        Bound("*", **{"width": 0.5, "density": 0.5, key: value})


def test_bounds_that_do_not_fit_the_network() -> None:
    all_layers, nothing, narrow = Bound("*", 0.5, 0.5), Bound("blok.*", 0.5, 0.5), Bound("stem", 0.1, 1)
    with pytest.raises(BoundError, match=r"'blok\.\*' matches no layer of small") as error:
        SearchSpace.of(small_resnet(), [all_layers, nothing])
    assert (error.value.bound, error.value.key) == (nothing, "layers")
    with pytest.raises(BoundError, match=r"below one group of 4; give at least 0\.5") as error:
        SearchSpace.of(small_resnet(), [narrow, all_layers])
    assert (error.value.bound, error.value.key) == (narrow, "width")


def test_rows_outside_the_network() -> None:
    space = SearchSpace.of(small_resnet(16))
    with pytest.raises(ArchitectureError, match=r"no width named 'dw'; there is: .*branch"):
        space.row(Architecture({"dw": 4}, {}))
    with pytest.raises(ArchitectureError, match="no density named 'stem'"):
        space.row(Architecture({}, {"stem": 0.5}))
    with pytest.raises(ArchitectureError, match="'stem' is 20, more than the network's 16"):
        space.row(Architecture({"stem": 20}, {}))
    with pytest.raises(ArchitectureError, match=r"'stem' is 1000+, more than the network's 16"):
        space.row(Architecture({"stem": 10**400}, {}))


def test_groups_that_may_not_be_cut_are_no_variables() -> None:
    space = SearchSpace.of(small_resnet(16))
    fixed = {g.name for g in couple(space.network).groups.values() if g.fixed}
    assert fixed.isdisjoint(v.name for v in space.variables if v.kind == "width")


@pytest.mark.parametrize(
    "document",
    [
        None, [], {}, {"widths": {}}, {"widths": 3, "densities": {}}, {"widths": {"a": 0}, "densities": {}},
        {"widths": {"a": 1.5}, "densities": {}}, {"widths": {"a": True}, "densities": {}},
        {"widths": {}, "densities": {"a": 0}}, {"widths": {}, "densities": {"a": "1"}},
        {"widths": {}, "densities": {"a": float("nan")}}, {"widths": [["a"]], "densities": {}},
    ],
)  # fmt: skip
def test_documents_that_are_no_architecture(document: object) -> None:
    with pytest.raises(ArchitectureError):
        Architecture.from_dict(document)


def test_architectures_compare_by_value_and_do_not_change() -> None:
    widths = {"a": 4}
    one = Architecture(widths, {"l": 0.5})
    widths["a"] = 8
    assert one == Architecture({"a": 4}, {"l": 0.5})
    assert len({one, Architecture({"a": 4}, {"l": 0.5}), Architecture({"a": 8}, {"l": 0.5})}) == 2
    with pytest.raises(TypeError):
        one.widths["a"] = 8


@st.composite
def grouped_networks(draw: st.DrawFn) -> Network:
    """Convolutions of any groups, depthwise ones among them, some narrow, one after the other."""
    net = NetworkBuilder("grouped", (4, 5, 5))
    for index in range(draw(st.integers(1, 6))):
        channels = net.channels(net.last)
        groups = draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
        net.conv(f"n{index}", groups * draw(st.integers(1, 4)), 3, groups=groups)
    return net.build()


@settings(max_examples=200)
@given(grouped_networks() | networks(), st.sampled_from([1, 4, 8]))
def test_layers_that_stay_whole_are_those_that_no_architecture_cuts(network: Network, step: int) -> None:
    """Fixed layers keep their channels in the smallest architecture of the space, and no others do."""
    space = SearchSpace.of(network, step=step)
    smallest = space.architecture(space.low)
    small = shrink(network, smallest)
    layers = layers_of(network)
    same = {layer for layer in layers if small.shapes[layer] == network.shapes[layer]}
    fixed = fixed_layers(network, step)
    assert fixed.keys() == same
    assert unpruned_layers(network).keys() == set(layers) - smallest.densities.keys()
    assert all(fixed.values())


@settings(max_examples=200)
@given(grouped_networks(), st.sampled_from([1, 4]), st.sampled_from(["width", "density"]))
def test_a_bound_that_can_do_nothing_is_refused_with_the_reason(
    network: Network, step: int, key: str
) -> None:
    """By its name, and by a pattern that matches only such layers; taken where it does something, or asks for nothing."""
    reasons = {"width": fixed_layers(network, step), "density": unpruned_layers(network)}[key]
    layers = [node.name for node in network if node.op == "conv2d"]
    for layer in layers:
        for pattern, matched in ((layer, {layer}), (f"[{layer[0]}]{layer[1:]}", {layer}), ("*", set(layers))):
            bound = Bound(pattern, **{"width": 1.0, "density": 1.0, key: 0.999})
            if matched <= reasons.keys():
                with pytest.raises(BoundError, match="does nothing: ") as error:
                    SearchSpace.of(network, [bound], step=step)
                assert (error.value.bound, error.value.key) == (bound, key)
                assert any(f"{name!r} {reasons[name]}" in str(error.value) for name in matched)
                assert f"give {key} = 1" in str(error.value)
            else:
                SearchSpace.of(network, [bound], step=step)
        SearchSpace.of(network, [Bound(layer, 1, 1)], step=step)


def test_bounds_that_are_ignored_are_named_in_the_recipe() -> None:
    net = NetworkBuilder("net", (3, 8, 8))
    net.conv("first", 16, 3)
    net.conv("grouped", 24, 3, groups=4)
    net.conv("last", 16, 1)
    net.depthwise("dw", 3)
    network = net.build()
    for bound, message in (
        (Bound("first", 0.5, 1), "width = 0.5 of bound 'first' does nothing: 'first' feeds the grouped convolution "
         "'grouped', which makes 6 channels of every 4 and keeps all its channels; give width = 1"),
        (Bound("grouped", 0.5, 1), "'grouped' is a grouped convolution that makes 6 channels of every 4 and keeps"),
        (Bound("dw", 1, 0.5), "density = 0.5 of bound 'dw' does nothing: 'dw' is depthwise and keeps all its weights"),
        (Bound("[fg]*", 0.5, 1), "each of the 2 layers that it matches keeps all its channels ('first' feeds"),
    ):  # fmt: skip
        with pytest.raises(BoundError, match=re.escape(message)):
            SearchSpace.of(network, [bound])

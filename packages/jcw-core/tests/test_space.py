"""The search space: values, the unit cube, bounds."""

from __future__ import annotations

import numpy as np
import pytest
from core_networks import networks, small_resnet
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.errors import ArchitectureError
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.shrink import shrink
from jcw_core.space.bounds import Bound, BoundError
from jcw_core.space.space import SearchSpace, Variable, is_prunable, prunable_layers

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


@given(networks())
def test_what_is_prunable(network) -> None:
    for node in network:
        grouped = node.op == "conv2d" and node.attributes["groups"] != 1
        first = node.op == "conv2d" and network[node.inputs[0]].op == "input"
        expected = node.op in ("conv2d", "linear") and not grouped and not first
        assert is_prunable(network, node) == expected
        assert (node.name in prunable_layers(network)) == expected


@pytest.mark.parametrize("key", ["width", "density"])
@pytest.mark.parametrize("value", [0, -0.1, 1.01, float("nan")])
def test_impossible_bounds(key: str, value: float) -> None:
    with pytest.raises(ArchitectureError, match=f"{key} = {value} is impossible"):
        Bound("*", **{"width": 0.5, "density": 0.5, key: value})


def test_bounds_that_do_not_fit_the_network() -> None:
    all_layers, nothing, narrow = Bound("*", 0.5, 0.5), Bound("blok.*", 0.5, 0.5), Bound("stem", 0.1, 0.5)
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

"""Channel groups, checked on each way in which axes are tied and by cutting random networks."""

from __future__ import annotations

import numpy as np
import pytest
from core_networks import image_of, networks, random_weights, run, small_resnet
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.errors import ArchitectureError
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.channel_groups import Segment, couple
from jcw_core.network.channel_order import permute_channels
from jcw_core.network.shrink import shrink, shrink_weights
from jcw_core.space.space import SearchSpace
from jcw_core.space.whole import fixed_layers


def test_every_tie_of_the_small_network() -> None:
    groups = couple(small_resnet()).groups
    assert {name: (g.channels, g.layers, g.fixed) for name, g in groups.items()} == {
        "input": (3, (), True),
        # A residual add, a squeeze-excite product, and depthwise layers, one behind a concat.
        "stem": (8, ("stem", "block.conv2", "se.expand", "dw"), False),
        "block.conv1": (16, ("block.conv1",), False),
        "se.reduce": (4, ("se.reduce",), False),
        "branch": (12, ("branch", "branch_dw", "dw"), False),
        "fc": (3, ("fc",), True),
    }


def test_concat_and_flatten_lay_groups_side_by_side() -> None:
    coupling = couple(small_resnet())
    assert coupling.layout["dw"] == (Segment("stem"), Segment("branch"))
    assert coupling.layout["flatten"] == (Segment("stem", 16), Segment("branch", 16))
    assert coupling.channels("flatten", {"stem": 2}) == (2 + 12) * 16
    kept = coupling.kept("flatten", {"stem": 2, "branch": 1})
    assert kept.tolist() == [*range(32), *range(8 * 16, 8 * 16 + 16)]


def test_a_grouped_convolution_is_cut_by_whole_groups() -> None:
    net = NetworkBuilder("grouped", (3, 4, 4))
    net.conv("before", 8, 1)
    net.conv("grouped", 24, 3, groups=4)
    net.conv("after", 8, 1)
    net.conv("last", 2, 1)
    coupling = couple(net.build())
    group = coupling.groups["before"]
    assert (group.layers, group.step, group.fixed) == (("before", "grouped"), 2, False)
    assert coupling.layout["grouped"] == (Segment("before", 3),)
    small = shrink(net.build(), Architecture({"before": 6}, {}))
    assert (small["grouped"].attributes["groups"], small.shapes["grouped"][0]) == (3, 18)
    with pytest.raises(ArchitectureError, match="cut by 2 channels at a time; the nearest is 4"):
        shrink(net.build(), Architecture({"before": 5}, {}))


def test_steps_of_several_grouped_convolutions_go_together() -> None:
    net = NetworkBuilder("both", (3, 4, 4))
    start = net.conv("start", 24, 1)
    net.conv("fours", 24, 3, groups=6, source=start)
    net.conv("sixes", 24, 3, groups=4, source=start)
    net.add("sum", "add", "fours", "sixes")
    net.conv("last", 2, 1)
    network = net.build()
    assert couple(network).groups["start"].step == 12
    (width,) = [v for v in SearchSpace.of(network, step=4).variables if v.kind == "width"]
    assert (width.low, width.high, width.step) == (12, 24, 12)


def test_a_step_that_is_the_whole_group_leaves_no_choice() -> None:
    net = NetworkBuilder("both", (3, 4, 4))
    net.conv("start", 12, 1)
    net.conv("grouped", 12, 3, groups=2)
    net.conv("last", 2, 1)
    network = net.build()
    assert not [v for v in SearchSpace.of(network, step=4).variables if v.kind == "width"]
    assert fixed_layers(network, 4)["start"] == "has 12 channels, one step of 12"


def test_channels_are_reordered_by_whole_groups() -> None:
    net = NetworkBuilder("grouped", (3, 4, 4))
    net.conv("before", 8, 1)
    net.conv("grouped", 16, 3, groups=4)
    net.conv("after", 8, 1)
    network, rng = net.build(), np.random.default_rng(0)
    weights, image = random_weights(network, rng), image_of(network, rng)
    order = np.array([4, 5, 0, 1, 6, 7, 2, 3])
    moved = run(network, permute_channels(network, weights, {"before": order}), image)
    still = run(network, weights, image)
    np.testing.assert_allclose(moved["after"], still["after"], atol=1e-12)
    np.testing.assert_allclose(moved["before"], still["before"][order], atol=1e-12)
    for wrong in ([1, 0, *range(2, 8)], [0, 2, 1, 3, 4, 5, 6, 7], [0, 1]):
        with pytest.raises(ArchitectureError, match="not an order of the channels"):
            permute_channels(network, weights, {"before": np.array(wrong)})


def test_groups_without_a_common_step_fix_both_sides() -> None:
    net = NetworkBuilder("grouped", (3, 4, 4))
    net.conv("before", 8, 1)
    net.conv("grouped", 12, 3, groups=4)
    net.conv("after", 8, 1)
    net.conv("last", 2, 1)
    groups = couple(net.build()).groups
    assert {name for name, g in groups.items() if g.fixed} == {"input", "before", "grouped", "last"}


def test_sums_of_different_layouts_are_fixed() -> None:
    net = NetworkBuilder("mixed", (3, 4, 4))
    whole = net.conv("whole", 8, 1)
    net.conv("a", 4, 1, source=whole)
    net.conv("b", 4, 1, source=whole)
    joined = net.add("joined", "concat", "a", "b")
    net.add("sum", "add", joined, whole)
    net.conv("last", 2, 1)
    assert {name for name, g in couple(net.build()).groups.items() if not g.fixed} == set()


def test_a_chain_of_residual_adds_is_one_group() -> None:
    net = NetworkBuilder("chain", (3, 4, 4))
    start = net.conv("first", 8, 1)
    for index in range(5):
        net.conv(f"wide{index}", 16, 1, source=start)
        start = net.add(f"add{index}", "add", start, net.conv(f"narrow{index}", 8, 1))
    net.conv("last", 2, 1)
    group = couple(net.build()).groups["first"]
    assert group.layers == ("first", *(f"narrow{i}" for i in range(5)))


@st.composite
def _cut_networks(draw: st.DrawFn):
    network = draw(networks())
    groups = [g for g in couple(network).groups.values() if not g.fixed]
    widths = {g.name: g.step * draw(st.integers(1, g.channels // g.step)) for g in groups}
    return network, Architecture(widths, {})


@settings(max_examples=300)
@given(_cut_networks(), st.integers(0, 2**32 - 1))
def test_cutting_equals_masking(case, seed: int) -> None:
    """The cut network computes what the whole one does with the channels that were cut held at zero."""
    network, architecture = case
    rng = np.random.default_rng(seed)
    weights, image = random_weights(network, rng), image_of(network, rng)
    coupling, masks = couple(network), {}
    for node in network:
        masks[node.name] = np.zeros(network.shapes[node.name][0])
        masks[node.name][coupling.kept(node.name, architecture.widths)] = 1
    whole = run(network, weights, image, masks)
    small = shrink(network, architecture)
    cut = run(small, shrink_weights(network, architecture, weights), image)
    for node in small:
        kept = coupling.kept(node.name, architecture.widths)
        assert small.shapes[node.name][0] == len(kept) == coupling.channels(node.name, architecture.widths)
        np.testing.assert_allclose(cut[node.name], whole[node.name][kept], rtol=1e-9, atol=1e-9)

"""Costs of architectures: against the network that each of them becomes, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from core_networks import networks, small_resnet
from hypothesis import given, settings
from hypothesis import strategies as st

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.network.shrink import kept_macs, shrink
from jcw_core.network.weight_groups import density_mask, weight_density
from jcw_core.space.costs import macs, model_bytes, weights
from jcw_core.space.space import SearchSpace


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    network = draw(networks() | st.integers(5, 30).map(small_resnet))
    return SearchSpace.of(network, step=draw(st.sampled_from([1, 3, 4])))


@settings(max_examples=60)
@given(spaces(), st.integers(0, 2**32 - 1))
def test_macs_are_those_of_the_cut_network(space: SearchSpace, seed: int) -> None:
    rows = space.sample(4, np.random.default_rng(seed))
    expected = [kept_macs(space.network, space.architecture(row)) for row in rows]
    np.testing.assert_allclose(macs(space, rows), expected, atol=0.51)


@settings(max_examples=40)
@given(st.sampled_from([8, 16, 24]), st.integers(0, 2**32 - 1))
def test_weights_and_bytes_are_those_that_a_mask_leaves(width: int, seed: int) -> None:
    """Widths are multiples of four, so that each weight group has four weights."""
    space = SearchSpace.of(small_resnet(width, classes=4))
    rng = np.random.default_rng(seed)
    rows = space.sample(3, rng)
    for row, found, size in zip(rows, weights(space, rows), model_bytes(space, rows), strict=True):
        architecture = space.architecture(row)
        network, kept, expected = shrink(space.network, architecture), 0, 0.0
        for node in network:
            if node.op not in ("conv2d", "linear"):
                continue
            weight = rng.standard_normal(network.parameter_shapes[f"{node.name}.weight"])
            mask = density_mask(weight, architecture.densities.get(node.name, 1.0))
            share = weight_density(weight * mask)
            kept += int(mask.sum())
            bits = 0 if share > 31 / 32 else -(-(mask.size // 4) // 8)
            expected += 4 * mask.sum() + bits + 4 * weight.shape[0]
        assert found == kept
        assert size == pytest.approx(expected)


def test_costs_of_many_are_those_of_each_and_grow_with_the_network() -> None:
    space = SearchSpace.of(MOBILENET_V2.build(num_classes=10, input_size=32), defaults=MOBILENET_V2.bounds)
    rows = space.sample(1000, np.random.default_rng(0))
    for cost in (macs, weights, model_bytes):
        np.testing.assert_array_equal(cost(space, rows)[:3], cost(space, rows[:3]))
        assert (cost(space, np.stack([space.low, space.high])).argsort() == [0, 1]).all()

"""Breeding: only what is new, inherited where nothing varies, every value with equal chance."""

from __future__ import annotations

import numpy as np
import pytest
import search_toys as toy
from scipy.stats import chisquare

from jcw_core.backbones.resnet import RESNET18
from jcw_core.space.space import Bound, SearchSpace
from jcw_search.constraints import Allowed, Constraints
from jcw_search.mating import _draw, breed
from jcw_search.operators import Variation
from jcw_search.phases import Phase


def phase(space: SearchSpace, free: np.ndarray) -> Phase:
    return Phase(1, free, np.stack([space.low, space.high]))


def allowed(space: SearchSpace) -> Allowed:
    return Allowed(Constraints(), space, toy.latency)


def test_breeding_gives_only_what_is_new_even_from_identical_parents(
    space: SearchSpace, rng: np.random.Generator
) -> None:
    parents = np.repeat(space.sample(1, rng), 5, axis=0)
    free = np.ones(space.dimensions, dtype=bool)
    children = breed(
        space, parents, parents, 40, phase(space, free), Variation(probability=0.0), allowed(space), rng
    )
    assert len(np.unique(np.concatenate([parents[:1], children]), axis=0)) == 41


def test_what_is_not_free_is_inherited_whole_from_the_nearer_parent(rng: np.random.Generator) -> None:
    space = SearchSpace.of(RESNET18.build(num_classes=10, input_size=32))
    widths = np.array([v.kind == "width" for v in space.variables])
    levels = np.array([0.2, 0.5, 0.9])[:, None]
    parents = space.decode(np.where(widths, levels[::-1], levels) * np.ones(space.dimensions))
    children = breed(
        space,
        parents,
        parents,
        300,
        phase(space, ~widths),
        Variation(mu_c=20, probability=0),
        allowed(space),
        rng,
    )
    nearest, inherited = [], []
    for child in children:
        nearest.append(np.abs(parents - child)[:, ~widths].sum(axis=1).argmin())
        inherited.append(np.flatnonzero((parents[:, widths] == child[widths]).all(axis=1)).item())
    # What is exchanged with the other parent may outweigh the rest.
    assert np.mean(np.equal(nearest, inherited)) > 0.6


@pytest.mark.parametrize("density", [0.108, 0.29, 0.5])
def test_random_draws_give_every_value_equally_often(density: float, rng: np.random.Generator) -> None:
    space = SearchSpace.of(toy.network(10), [Bound("*", width=0.4, density=density)])
    free = np.ones(space.dimensions, dtype=bool)
    drawn = _draw(space, space.sample(2, rng), 40_000, free, rng)
    for column, variable in zip(drawn.T, space.variables, strict=True):
        values, counts = np.unique(column, return_counts=True)
        np.testing.assert_array_equal(values, toy.values_of(variable))
        assert chisquare(counts).pvalue > 1e-4

"""What a step of the supernet's training draws: it covers what the search may visit, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from supernet_samples import BUILDERS

from jcw_core.space.space import SearchSpace
from jcw_core.supernet.draws import Draws

SPACES = {name: SearchSpace.of(build()) for name, build in BUILDERS.items()}
VARIANTS = ("joint", "channels", "weights", "sequential")
STEPS = 400


def kinds(space: SearchSpace) -> tuple[np.ndarray, np.ndarray]:
    """Columns of widths and of densities."""
    widths = np.array([v.kind == "width" for v in space.variables])
    return np.flatnonzero(widths), np.flatnonzero(~widths)


def drawn(draws: Draws, epoch: int = 0, seed: int = 0, steps: int = STEPS) -> np.ndarray:
    """(steps, sub-networks of a step, dimensions)."""
    return np.stack(list(draws.steps(epoch, steps, np.random.default_rng(seed))))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(SPACES)),
    st.sampled_from(VARIANTS),
    st.sampled_from(["plain", "sandwich"]),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_draws_are_those_that_the_variant_can_visit(
    name: str, variant: str, rule: str, channel_epochs: int, seed: int
) -> None:
    space, epoch = SPACES[name], 1
    widths, densities = kinds(space)
    rows = drawn(Draws(space, variant, rule, channel_epochs), epoch, seed)  # type: ignore[arg-type]
    assert rows.shape == (STEPS, 4 if rule == "sandwich" else 1, space.dimensions)
    flat = rows.reshape(-1, space.dimensions)
    np.testing.assert_array_equal(space.decode(space.encode(flat)), flat)
    whole = flat == space.maximum
    dense, wide = whole[:, densities].all(1), whole[:, widths].all(1)
    if variant == "channels" or epoch < channel_epochs:
        assert dense.all()
    elif variant == "weights":
        assert wide.all()
        assert not dense.all()
    elif variant == "sequential":
        # A half of the steps is dense, to within six standard deviations, and of the others a quarter at most, by the draw.
        steps = dense.reshape(STEPS, -1).all(1)
        margin = 6 * 0.5 / STEPS**0.5
        assert 0.5 - margin < steps.mean() < 0.5 + 0.5 * 0.25 + margin
    if variant == "weights" and epoch < channel_epochs:
        assert whole.all()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", sorted(SPACES))
def test_what_varies_takes_all_its_range(name: str, variant: str) -> None:
    space = SPACES[name]
    rows = drawn(Draws(space, variant))[:, 0]
    for column, variable in enumerate(space.variables):
        fixed = {"width": "weights", "density": "channels"}[variable.kind] == variant
        expected = (variable.maximum,) * 2 if fixed else (variable.low, variable.high)
        assert (rows[:, column].min(), rows[:, column].max()) == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sandwich_is_the_largest_the_smallest_and_two_others(variant: str) -> None:
    space = SPACES["residual"]
    widths, densities = kinds(space)
    rows = drawn(Draws(space, variant, "sandwich"))
    assert (rows[:, 0] == space.maximum).all()
    smallest = space.decode(space.encode(space.low[None]))[0]
    for step in rows[:, 1]:
        dense, wide = (step == space.maximum)[densities].all(), (step == space.maximum)[widths].all()
        assert wide or (step[widths] == smallest[widths]).all()
        assert dense or (step[densities] == smallest[densities]).all()
        assert not (dense and wide)
        assert wide == (variant == "weights")
        assert {"joint": not dense, "channels": dense, "weights": not dense}.get(variant, True)
    assert (rows[:, 2] != rows[:, 3]).any(1).mean() > 0.5


def test_a_population_is_drawn_as_it_is() -> None:
    space = SPACES["depthwise"]
    population = space.sample(7, np.random.default_rng(3))
    for rule, first in (("plain", 0), ("sandwich", 2)):
        rows = drawn(Draws(space, "channels", rule, population=population))[:, first:]  # type: ignore[arg-type]
        found = {row.tobytes() for row in rows.reshape(-1, space.dimensions)}
        assert found == {row.tobytes() for row in population}


def test_an_unknown_variant_is_taken_for_the_whole_space() -> None:
    space = SPACES["residual"]
    np.testing.assert_array_equal(drawn(Draws(space, "blocks")), drawn(Draws(space)))

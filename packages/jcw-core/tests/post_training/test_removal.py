"""The order of removal and the refit, against the same steps one at a time in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jcw_core.network.weight_groups import kept_groups
from jcw_core.post_training import removal as module
from jcw_core.post_training.refit import mask_at, refit
from jcw_core.post_training.removal import damped, grouped_rows, removal_order


def layer(seed: int, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    """Weights, and the Gram matrix of inputs that depend on each other."""
    rng = torch.Generator().manual_seed(seed)
    mixing = torch.randn(inputs, inputs, generator=rng)
    samples = mixing @ torch.randn(inputs, 4 * inputs, generator=rng)
    return torch.randn(outputs, inputs, generator=rng), samples @ samples.T


def removed_one_at_a_time(rows: Tensor, gram: Tensor) -> tuple[list[int], list[float]]:
    """A group's order and its losses: the surgeon as Hassibi and Stork have it, with a new inverse at each step."""
    rows, left, order, losses = rows.double(), list(range(len(gram))), [], []
    while left:
        inverse = torch.linalg.inv(damped(gram)[left][:, left])
        scores = rows[:, left].square().sum(0) / inverse.diagonal()
        best = int(scores.argmin())
        rows[:, left] -= torch.outer(rows[:, left[best]] / inverse[best, best], inverse[best])
        losses.append(float(scores[best]))
        order.append(left.pop(best))
    return order, losses


@given(st.integers(0, 2**16), st.integers(1, 13), st.integers(1, 40), st.integers(1, 33))
def test_order_and_losses_are_those_of_single_steps(seed: int, outputs: int, inputs: int, steps: int) -> None:
    weight, gram = layer(seed, outputs, inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEPS", steps)
        found = removal_order(weight, gram)
    for group, rows in enumerate(grouped_rows(weight)):
        order, losses = removed_one_at_a_time(rows, gram)
        torch.testing.assert_close(
            found.loss[group].double(), torch.tensor(losses).double().cummax(0).values, rtol=1e-2, atol=1e-4
        )
        # Where two inputs cost the same but for rounding, either may go first.
        if found.order[group].tolist() != order:
            first = next(i for i, (a, b) in enumerate(zip(found.order[group], order, strict=True)) if a != b)
            assert losses[first] == pytest.approx(float(found.loss[group, first]), rel=1e-2, abs=1e-4)


def test_groups_that_do_not_fit_in_memory_are_worked_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, gram = layer(0, 24, 20)
    whole = removal_order(weight, gram)
    monkeypatch.setattr(module, "_BYTES", 4 * 20 * 20 * 2)
    parts = removal_order(weight, gram)
    assert torch.equal(whole.order, parts.order)
    torch.testing.assert_close(whole.loss, parts.loss)


def test_inputs_that_never_vary_have_an_inverse() -> None:
    weight, gram = layer(0, 8, 10)
    gram[3], gram[:, 3] = 0, 0
    found = removal_order(weight, gram)
    assert sorted(found.order[0].tolist()) == list(range(10))
    assert torch.isfinite(found.loss).all()


@given(st.integers(0, 2**16), st.integers(1, 12), st.integers(1, 20), st.floats(0.01, 1.0), st.data())
def test_masks_keep_as_many_groups_as_the_density_says(
    seed: int, outputs: int, inputs: int, density: float, data: st.DataObject
) -> None:
    weight, gram = layer(seed, outputs, inputs)
    there = torch.from_numpy(np.array(data.draw(st.lists(st.booleans(), min_size=inputs, max_size=inputs))))
    found = removal_order(weight, gram)
    mask = mask_at(found, density, there)
    groups = -(-outputs // 4)
    assert not mask[:, ~there].any()
    assert int(mask.sum()) == kept_groups(density, groups * int(there.sum()))
    # Within a group of rows, what stays went later than what is gone.
    for group in range(groups):
        ranks = [i for i, one in enumerate(found.order[group]) if there[one]]
        kept = [bool(mask[group, found.order[group, i]]) for i in ranks]
        assert kept == sorted(kept)


@given(st.integers(0, 2**16), st.integers(1, 12), st.integers(1, 20), st.data())
def test_what_stays_is_fitted_as_by_least_squares(
    seed: int, outputs: int, inputs: int, data: st.DataObject
) -> None:
    weight, gram = layer(seed, outputs, inputs)
    groups = -(-outputs // 4)
    flat = data.draw(st.lists(st.booleans(), min_size=groups * inputs, max_size=groups * inputs))
    mask = torch.tensor(flat).view(groups, inputs)
    found = refit(weight, gram, mask)
    system = damped(gram)
    for output in range(outputs):
        kept = mask[output // 4].nonzero()[:, 0]
        wanted = torch.zeros(inputs, dtype=torch.float64)
        right = (system @ weight[output].double())[kept]
        wanted[kept] = torch.linalg.solve(system[kept][:, kept], right)
        torch.testing.assert_close(found[output].double(), wanted, rtol=1e-3, atol=1e-3)


def test_a_refit_is_nearer_to_the_dense_outputs_than_the_mask_alone() -> None:
    weight, gram = layer(1, 16, 32)
    mask = mask_at(removal_order(weight, gram), 0.5)
    rows = mask.repeat_interleave(4, 0)

    def distance(pruned: Tensor) -> float:
        difference = (pruned - weight).double()
        return float(((difference @ gram.double()) * difference).sum())

    assert distance(refit(weight, gram, mask)) < 0.5 * distance(weight * rows)

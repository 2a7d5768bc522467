"""Budgets that no network can meet, or every one does, known as soon as latencies can be predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jcw_retrain.choosing import LATENCY, at_least
from jcw_retrain.options import RetrainOptions

if TYPE_CHECKING:
    from jcw_core.protocols import Evaluator, Run
    from jcw_core.space.space import SearchSpace


def files_read(run: Run) -> tuple[str, ...]:
    """What ``check_budgets`` reads: the files from which latencies are predicted."""
    asked = run.options(RetrainOptions).budgets_ms and LATENCY in run.registry.objectives
    return run.registry.objectives[LATENCY].needs if asked else ()


def check_budgets(run: Run) -> list[str]:
    """Notes on budgets that the dense network meets.

    Raises:
        RecipeError: a budget below the predicted latency of the fastest network of the space.
    """
    budgets = sorted(run.options(RetrainOptions).budgets_ms)
    if not budgets or LATENCY not in run.registry.objectives:
        return []
    evaluator = run.registry.objectives[LATENCY].open(run)
    evaluator.begin_generation(np.stack([run.space.low, run.space.maximum]), 0)
    dense = float(evaluator.evaluate(run.space, run.space.maximum[None])[0])
    fastest = min(fastest_ms(evaluator, run.space), dense)
    if budgets[0] < fastest:
        raise run.recipe.where.inside("retrain").error(
            "budgets_ms",
            f"no network of the space is predicted to run within {budgets[0]:g} ms; ask for at least "
            f"{at_least(fastest)} or lower the bounds of the space",
        )
    return [
        f"retrain.budgets_ms: the dense network is predicted to take {dense:.4g} ms, which is within {budget:g} ms"
        for budget in budgets
        if budget >= dense
    ]


def fastest_ms(evaluator: Evaluator, space: SearchSpace) -> float:
    """Predicted latency of the fastest network, in ms.

    That is the smallest one, but for variables whose lowest value is not their fastest: a layer of
    few channels may be slower pruned than whole. Latency adds up over layers, so each is looked at alone.
    """
    lowest = space.low[None]
    raised = np.repeat(lowest, space.dimensions, axis=0)
    np.fill_diagonal(raised, space.high)
    smallest = evaluator.evaluate(space, lowest)[0]
    better = evaluator.evaluate(space, raised) < smallest
    return float(min(smallest, evaluator.evaluate(space, np.where(better, space.high, space.low)[None])[0]))

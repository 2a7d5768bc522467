"""The weights that a network brings, for keys of ``[retrain]`` that cannot do without. Needs no torch."""

from __future__ import annotations

from jcw_core.network.shrink import Weights
from jcw_core.protocols import Run

_WHY = {
    "init": "'pretrained' starts from trained weights",
    "teacher": "'dense' is the network as it was trained before",
}


def pretrained_weights(run: Run, key: str) -> Weights:
    """The weights of the whole network, by state-dict name.

    Args:
        run: whose recipe may bring weights.
        key: of ``[retrain]``, that asks for them.

    Raises:
        RecipeError: it brings none.
    """
    if run.weights is None:
        raise run.recipe.where.inside("retrain").error(
            key, f"{_WHY[key]}; give network.weights, or a file that has them"
        )
    return run.weights

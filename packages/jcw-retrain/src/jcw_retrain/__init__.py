"""Trains the networks that a search has chosen, and hands them over."""

from typing import TYPE_CHECKING

from jcw_core.lazy import lazily

if TYPE_CHECKING:
    from jcw_retrain.admm import Admm as Admm
    from jcw_retrain.admm import FixedMasks as FixedMasks
    from jcw_retrain.admm import prune as prune
    from jcw_retrain.choosing import ChosenCandidate as ChosenCandidate
    from jcw_retrain.choosing import choose as choose
    from jcw_retrain.fitting import Fitted as Fitted
    from jcw_retrain.fitting import Fitting as Fitting
    from jcw_retrain.options import RetrainOptions as RetrainOptions

    __version__: str

_HOMES = {
    "Admm": "jcw_retrain.admm",
    "ChosenCandidate": "jcw_retrain.choosing",
    "FixedMasks": "jcw_retrain.admm",
    "Fitted": "jcw_retrain.fitting",
    "Fitting": "jcw_retrain.fitting",
    "RetrainOptions": "jcw_retrain.options",
    "choose": "jcw_retrain.choosing",
    "prune": "jcw_retrain.admm",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:
    # Half of them need torch, which takes seconds; commands and plugins are listed without it.
    __getattr__, __dir__ = lazily(__name__, _HOMES)

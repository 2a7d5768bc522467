"""Where training starts from: random weights, those that the network brings, or what the supernet stage made."""

from __future__ import annotations

from collections.abc import Callable

from jcw_core.network.architecture import Architecture
from jcw_core.network.shrink import Weights, shrink_weights
from jcw_core.protocols import Run
from jcw_core.run.records import SUPERNET
from jcw_core.supernet.options import SupernetOptions
from jcw_core.supernet.post_training import pruned_weights
from jcw_core.training import checkpoint
from jcw_retrain.options import RetrainOptions
from jcw_retrain.pretrained import pretrained_weights


def starting_weights(run: Run) -> Callable[[Architecture], Weights] | None:
    """The weights of a network cut down to an architecture, as ``[retrain] init`` says; None for random ones.

    Raises:
        RecipeError: pretrained weights are asked for, and the network brings none.
        FormatError: the supernet's file is missing or damaged.
    """
    init = run.options(RetrainOptions).init
    if init == "scratch":
        return None
    if brings_statistics(run):
        return lambda architecture: pruned_weights(run, architecture)
    whole = pretrained_weights(run, "init") if init == "pretrained" else _supernet(run)
    return lambda architecture: shrink_weights(run.network, architecture, whole)


def brings_statistics(run: Run) -> bool:
    """True where weights were pruned after training: each architecture's are calibrated, and the dense ones untouched."""
    init, mode = run.options(RetrainOptions).init, run.options(SupernetOptions).mode
    return init == "supernet" and mode == "post-training"


def _supernet(run: Run) -> Weights:
    tensors, _ = checkpoint.load(run.path(SUPERNET))
    return {name: tensor.numpy() for name, tensor in tensors.items()}

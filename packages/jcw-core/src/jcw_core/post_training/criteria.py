"""The criteria of channel importance that are built in. Torch is imported when they measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Network
from jcw_core.training.extra import implementation


class BuiltIn:
    """A criterion by the name of a function of ``jcw_core.post_training.importance`` or ``taylor``.

    Args:
        name: ``"obs"``: what its removal costs the layers that read the channel, once they are refitted (the optimal
            brain surgeon); ``"taylor"``: the first-order change of the loss (Molchanov et al. 2019);
            ``"batch_norm_scale"``: the scale of batch norm (Liu et al. 2017); ``"l1"``: the L1 norm of the weights that
            write it (Li et al. 2017).
    """

    def __init__(self, name: Literal["obs", "taylor", "batch_norm_scale", "l1"]) -> None:
        self.name = name

    def measure(
        self, network: Network, tensors: Mapping[str, Any], grams: Mapping[str, Any], images: Sequence[Any]
    ) -> Mapping[str, NDArray[np.float64]]:
        """How much each channel matters, (channels,) by group; see ``jcw_core.protocols.Importance``."""
        importance = implementation("jcw_core.post_training.importance")
        found: Mapping[str, NDArray[np.float64]]
        if self.name == "obs":
            found = importance.channel_saliency(network, tensors, grams)
        elif self.name == "taylor":
            found = implementation("jcw_core.post_training.taylor").taylor(network, tensors, images)
        elif self.name == "l1":
            found = importance.l1_norms(network, tensors)
        else:
            found = importance.batch_norm_scales(network, tensors)
        return found


OBS = BuiltIn("obs")
CRITERIA = (OBS, BuiltIn("taylor"), BuiltIn("batch_norm_scale"), BuiltIn("l1"))

"""Which channels matter most: criteria by which those of each group are ordered before a network is pruned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Network


class Importance(Protocol):
    """A criterion of channel importance."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    def measure(
        self, network: Network, tensors: Mapping[str, Any], grams: Mapping[str, Any], images: Sequence[Any]
    ) -> Mapping[str, NDArray[np.float64]]:
        """How much each channel matters; larger is more.

        Args:
            network: at full width.
            tensors: trained parameters and statistics by state-dict name, torch tensors in float32.
            grams: H = X X^T of what each prunable layer reads, (D, D) by layer, averaged over images; of layers so large
                that H would not fit or take hours, its diagonal (D,).
            images: batches of normalised images (n, channels, height, width), torch tensors. No labels.

        Returns:
            (channels,) by name of each channel group whose width may change (``jcw_core.network.couple``); a group
            that is left out keeps its order. Only the order within a group counts.
        """

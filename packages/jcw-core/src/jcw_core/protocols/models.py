"""What a backbone and an exporter are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.space.bounds import Bound


class Backbone(Protocol):
    """A family of networks."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def bounds(self) -> Sequence[Bound]:
        """Default bounds of its search space; the first that matches a layer holds."""

    def build(
        self,
        *,
        num_classes: int = 1000,
        width: float = 1.0,
        input_size: int = 224,
        in_channels: int = 3,
    ) -> Network:
        """Return the network. ``width`` scales all channels; ``input_size`` is height and width."""


class Exporter(Protocol):
    """Writes a model for some runtime; ``suffix`` begins with a dot."""

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def suffix(self) -> str:
        """End of its file names, with the dot."""

    def export(self, model: Model, path: Path) -> None:
        """Write ``path`` atomically. Raises ``JcwError`` for a network the format cannot hold."""


WeightType = Literal["float32", "float16"]
"""What a file stores weights as."""


@runtime_checkable
class StoresWeights(Exporter, Protocol):
    """An exporter whose files may store weights in fewer bits than their runtime computes with.

    Unasked it stores what the runtime computes with, or float32.
    """

    def storing(self, weights: WeightType) -> Exporter:
        """An exporter that stores them as ``weights``."""


Precision = Literal["float32", "float16", "int8"]
"""What a runtime computes with."""


@runtime_checkable
class ComputesHalf(Exporter, Protocol):
    """An exporter whose files may have their runtime compute in half precision."""

    def in_half_precision(self) -> Exporter:
        """An exporter of models that compute in float16."""


CalibrationMethod = Literal["mse", "percentile", "minmax"]
"""What an activation's range is: the one whose rounded values are nearest to the true ones, all values but one in ten thousand
at either end, or all of them."""

Products = Literal["bytes", "pairs", "none"]
"""What a processor sums up at once of whole numbers: products of bytes (VNNI, ARM's dot products), pairs of 16 bits (AVX2, AVX-512
without VNNI), or none."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How layers are chosen that compute with int8, and their numbers.

    Args:
        method: how the range of an activation is chosen.
        most_error: what all of them may change the network's outputs by for the images, as a share of the outputs' squares; layers
            that change them most compute with floats until it is no more. None for any.
        products: of the processor that the files are for; None for this machine.
    """

    method: CalibrationMethod = "mse"
    most_error: float | None = None
    products: Products | None = "bytes"


@runtime_checkable
class Quantizes(Exporter, Protocol):
    """An exporter whose files may have their runtime compute with whole numbers."""

    def calibrated(self, images: NDArray[np.float32], how: Calibration | None = None) -> Exporter:
        """An exporter of models that compute with int8 where that is faster.

        Args:
            images: (n, channels, height, width), normalised as the models take them; what activations are for these says which
                numbers stand for them.
            how: by default ``Calibration()``.
        """

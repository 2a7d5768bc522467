"""``Model``: a network with its weights, ready to be exported or compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.image_input import ImageInput
from jcw_core.network.shrink import Weights


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A network and the value of every parameter and batch-norm statistic.

    Args:
        network: already cut down to its architecture.
        weights: float32 arrays by state-dict name (``conv1.weight``, ``bn1.running_mean``); pruned
            weights are zeros.
        architecture: where the network came from in its search space, kept for people to read.
        images: how image files become its input, where that is known.
        input_name: of the input, in the file that it came from.

    Raises:
        FormatError: an array is missing, superfluous, of another shape or type, or not finite.
    """

    network: Network
    weights: Weights
    architecture: Architecture | None = None
    images: ImageInput | None = None
    input_name: str = "input"

    def __repr__(self) -> str:
        return f"<Model {self.network.name!r}: {self.network.parameters:,} parameters>"

    def __post_init__(self) -> None:
        expected = {**self.network.parameter_shapes, **self.network.buffer_shapes}
        missing, extra = expected.keys() - self.weights.keys(), self.weights.keys() - expected.keys()
        if missing or extra:
            problem = f"lacks {min(missing)!r}" if missing else f"has no place for {min(extra)!r}"
            raise FormatError(f"weights of {self.network.name}: the model {problem}")
        for name, shape in expected.items():
            array = self.weights[name]
            if array.shape != shape or array.dtype != np.float32:
                raise FormatError(
                    f"weights of {self.network.name}: {name} is {array.dtype} {array.shape}, expected float32 {shape}"
                )
            if not np.isfinite(array).all():
                raise FormatError(
                    f"weights of {self.network.name}: {name} holds NaN or infinity; train again"
                )

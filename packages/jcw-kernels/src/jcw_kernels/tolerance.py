"""Which layers stay in floats, because with int8 they would change what the network says too much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jcw_core.logs import logger
from jcw_core.network.model import Model
from jcw_kernels.model_file import serialize
from jcw_kernels.program import Program
from jcw_kernels.quantization import Quantization

_log = logger(__name__)

_JUDGED = 16
"""Images whose outputs are compared."""
_LEAST = 1e-12
"""Of the squares of outputs, where all of them are zero."""


def tolerated(
    model: Model, images: NDArray[np.float32], quantization: Quantization, most_error: float, threads: int
) -> Quantization:
    """What is left of ``quantization`` when layers have been taken out until the outputs change by no more than is allowed.

    Those go first that change them most alone. What layers change adds up nearly, so about as much goes at once as is too much.
    Layers are tried alone only where all of them together are too much.

    Args:
        model: the network with its weights.
        images: (n, channels, height, width), normalised; some of them are run.
        quantization: the numbers of all layers that are to compute with int8.
        most_error: squared difference of the outputs from those of floats, as a share of the squares of these.
        threads: of each image.
    """
    outputs = _Outputs(model, images[:: max(1, len(images) // _JUDGED)][:_JUDGED], threads)
    kept, error = dict(quantization), outputs.error(quantization)
    _log.info("int8 in %d layers changes the outputs by %.2g, at most %.2g", len(kept), error, most_error)
    if error <= most_error:
        return kept
    alone = {name: outputs.error({name: numbers}) for name, numbers in kept.items()}
    worst = sorted(kept, key=lambda name: alone[name])
    while kept and not error <= most_error:
        excess = (1 - most_error / error) * sum(alone[name] for name in kept)
        while kept and excess > 0:
            name = worst.pop()
            excess -= alone[name]
            del kept[name]
            _log.info("%s stays in floats: int8 there alone changes the outputs by %.2g", name, alone[name])
        error = outputs.error(kept)
    _log.info("int8 in the %d layers that are left changes the outputs by %.2g", len(kept), error)
    return kept


class _Outputs:
    """What a network makes of some images with floats, and how far from it others are."""

    def __init__(self, model: Model, images: NDArray[np.float32], threads: int) -> None:
        self._model, self._images, self._threads = model, np.ascontiguousarray(images), threads
        self._exact = self._run({})
        self._squares = max(float(np.square(self._exact).sum()), _LEAST)

    def error(self, quantization: Quantization) -> float:
        """Squared difference, as a share of the squares."""
        return float(np.square(self._run(quantization) - self._exact).sum()) / self._squares

    def _run(self, quantization: Quantization) -> NDArray[np.float64]:
        file = serialize(self._model, quantization=quantization)
        return Program(file, threads=self._threads).run(self._images).astype(np.float64)

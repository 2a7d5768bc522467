"""The ``jcw`` exporter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.files import atomic
from jcw_core.network.model import Model
from jcw_core.protocols import Calibration, Precision, WeightType
from jcw_kernels.calibration import calibrate
from jcw_kernels.gains import products_here
from jcw_kernels.model_file import serialize
from jcw_kernels.quantization import Quantization


class JcwExporter:
    """The ``jcw`` exporter: writes what the engine runs.

    Args:
        weights: what they are stored as; None for float16 where that is the precision, else float32.
        images: by which layers are chosen numbers, where they are to compute with int8; (n, channels, height, width), normalised.
        precision: what layers compute in that have no such numbers.
        how: layers are chosen for int8, and their numbers; by default ``Calibration()``.
    """

    name = "jcw"
    suffix = ".jcw"

    def __init__(
        self,
        weights: WeightType | None = None,
        images: NDArray[np.float32] | None = None,
        precision: Precision = "float32",
        how: Calibration | None = None,
    ) -> None:
        self.weights = weights
        self._images = images
        self._precision: Precision = precision
        self._how = how or Calibration()

    def storing(self, weights: WeightType) -> JcwExporter:
        """The same exporter, for weights of another type."""
        return JcwExporter(weights, self._images, self._precision, self._how)

    def calibrated(self, images: NDArray[np.float32], how: Calibration | None = None) -> JcwExporter:
        """The same exporter, for int8."""
        return JcwExporter(self.weights, images, how=how)

    def in_half_precision(self) -> JcwExporter:
        """The same exporter, for float16."""
        return JcwExporter(self.weights, precision="float16")

    def export(self, model: Model, path: Path) -> None:
        """Write ``path`` atomically: network, architecture and only the kept weights."""
        numbers = None if self._images is None else self._numbers(model, self._images)
        with atomic(path) as temporary:
            temporary.write_bytes(serialize(model, self.weights, numbers, self._precision))

    def _numbers(self, model: Model, images: NDArray[np.float32]) -> Quantization:
        how = self._how
        products = how.products or products_here()
        return calibrate(model, images, method=how.method, most_error=how.most_error, products=products)

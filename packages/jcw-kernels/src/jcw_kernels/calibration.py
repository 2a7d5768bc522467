"""Which numbers the layers of a network read: chosen by what its activations are for some images, without labels."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.network.graph import Network
from jcw_core.network.layers import FusedLayer, problem_of
from jcw_core.network.model import Model
from jcw_core.network.weight_groups import weight_density
from jcw_core.protocols import CalibrationMethod, Products
from jcw_kernels.gains import gains_from_int8
from jcw_kernels.model_file import layers_of, numbers_of, serialize
from jcw_kernels.program import Program
from jcw_kernels.quantization import Numbers, Quantization
from jcw_kernels.tolerance import tolerated

_STEPS = 255
"""Between the least and the largest number of an activation."""
_SAMPLES = 4096
"""Values of a tensor and image that a range is chosen by."""
_SHRINKS = np.linspace(1, 0.3, 36)
"""Shares of the whole range among which the nearest is looked for."""
_TAIL = 1e-4
_TINY = 1e-30
"""The least scale: its inverse is a float32."""


def calibrate(
    model: Model,
    images: NDArray[np.float32],
    *,
    layers: Collection[str] | None = None,
    method: CalibrationMethod = "mse",
    most_error: float | None = None,
    products: Products = "bytes",
    threads: int = 1,
) -> Quantization:
    """Choose the numbers that layers read which are to compute with int8.

    Args:
        model: the network with its weights.
        images: (n, channels, height, width), normalised as the network takes them; some hundred are enough.
        layers: names of linear layers, of ungrouped convolutions, and of depthwise ones with more than one output pixel. By default
            those that were measured to gain by ``products``, of bytes: windows larger than one pixel, but for
            depthwise ones with an activation that does more than clamp or a stride and short rows; of 1 x 1 convolutions those
            that keep at least 8 inputs for each output; and linear layers, or convolutions that make one pixel, that keep a fifth
            of their weights and 2,048 of them. By pairs it is few: windows larger than one pixel that keep 100 products of an output
            and are not nearly dense 3 x 3 ones, and linear layers that keep half of their weights.
        method: how a range is chosen.
        most_error: what int8 may change the outputs by for some of the images, as a share of their squares: layers that change them
            most stay in floats until it is no more. None for any.
        products: what the processor that it is for sums up at once of whole numbers; others compute the same, if slower.
        threads: of each image.

    Raises:
        JcwError: no image, another shape or method, an unknown layer or one that cannot, or an activation that is not finite.
    """
    if method not in get_args(CalibrationMethod):
        raise JcwError(f"method is {method!r}, expected one of {', '.join(get_args(CalibrationMethod))}")
    if not len(images):
        raise JcwError("no image to choose the range of activations by; give some hundred")
    readers = _readers(model, layers, products)
    seen = {tensor: _Seen() for tensor in readers.values()}
    for tensor, values in _observed(model, images, sorted(seen), threads):
        seen[tensor].add(values)
    numbers = {tensor: found.numbers(method) for tensor, found in seen.items() if found.count}
    found = {name: numbers[tensor] for name, tensor in readers.items() if tensor in numbers}
    return found if most_error is None else tolerated(model, images, found, most_error, threads)


def _readers(model: Model, wanted: Collection[str] | None, products: Products) -> dict[str, int]:
    """Layers that are to compute with whole numbers, and the number of the tensor that each reads."""
    network = model.network
    numbers = numbers_of(network)
    able = {layer.name: layer for layer in layers_of(network) if _takes_numbers(network, layer)}
    if wanted is None:
        wanted = [name for name, layer in able.items() if _pays(network, layer, model.weights, products)]
    for name in wanted:
        if name not in able:
            raise JcwError(
                f"{name!r} cannot compute with int8; linear layers and ungrouped or depthwise convolutions can: {', '.join(able)}"
            )
    return {name: numbers[able[name].inputs[0]] for name in wanted}


def _pays(
    network: Network, layer: FusedLayer, weights: Mapping[str, NDArray[np.float32]], products: Products
) -> bool:
    density = weight_density(weights[f"{layer.name}.weight"])
    return gains_from_int8(problem_of(network, layer, density), products)


def _takes_numbers(network: Network, layer: FusedLayer) -> bool:
    """As ``quantizes`` of the engine says: a linear layer, an ungrouped convolution, or a depthwise one of more than one pixel."""
    if layer.node.op != "conv2d":
        return layer.node.op == "linear"
    groups = layer.node.attributes["groups"]
    depthwise = groups == network.shapes[layer.node.name][0] == network.shapes[layer.inputs[0]][0]
    return bool(groups == 1 or (depthwise and not _is_linear(network, layer)))


def _is_linear(network: Network, layer: FusedLayer) -> bool:
    """Whether the engine computes it as a linear layer: what makes one pixel is one on its flattened input."""
    return math.prod(network.shapes[layer.node.name][1:]) == 1


def _observed(
    model: Model, images: NDArray[np.float32], tensors: list[int], threads: int
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """(tensor, (channels, pixels)) of all images."""
    program = Program(serialize(model), threads=threads, together=False)
    for image in images:
        if 0 in tensors:
            yield 0, image.reshape(len(image), -1)
        yield from program.observe(image[None], tensors)


class _Seen:
    """What is known of a tensor so far."""

    def __init__(self) -> None:
        self.count = 0
        self._low = self._high = 0.0  # 0.0 is always a number
        self._sum: NDArray[np.float64] | float = 0.0
        self._samples: list[NDArray[np.float32]] = []

    def add(self, values: NDArray[np.float32]) -> None:
        """Values of one image, (channels, pixels)."""
        low, high = float(values.min()), float(values.max())
        if not np.isfinite([low, high]).all():
            raise JcwError(
                "an activation is NaN or infinite for one of the images; look at the network's weights"
            )
        self._low, self._high = min(self._low, low), max(self._high, high)
        self._sum = self._sum + values.mean(axis=1, dtype=np.float64)
        self.count += 1
        flat = values.reshape(-1)
        self._samples.append(flat[:: max(1, flat.size // _SAMPLES)].copy())

    def numbers(self, method: CalibrationMethod) -> Numbers:
        """The best of them."""
        samples = np.concatenate(self._samples)
        low, high = self._low, self._high
        if method == "percentile":
            low, high = np.quantile(samples, [_TAIL, 1 - _TAIL])
        shrinks = _SHRINKS if method == "mse" else [1.0]
        choices = [_affine(share * min(low, 0.0), share * max(high, 0.0)) for share in shrinks]
        errors = [float(np.square(_rounded(samples, *choice) - samples).mean()) for choice in choices]
        scale, zero = choices[int(np.argmin(errors))]
        return Numbers(scale, zero, np.asarray(self._sum) / self.count)


def _affine(low: float, high: float) -> tuple[float, int]:
    """Scale and zero of numbers from ``low`` to ``high``, between which 0.0 lies."""
    scale = float(np.float32(max((high - low) / _STEPS, _TINY)))
    return scale, int(np.clip(np.rint(-low / scale), 0, _STEPS))


def _rounded(values: NDArray[np.float32], scale: float, zero: int) -> NDArray[np.float32]:
    numbers = np.clip(np.rint(values * np.float32(1 / np.float32(scale))) + zero, 0, _STEPS)
    rounded: NDArray[np.float32] = ((numbers - zero) * np.float32(scale)).astype(np.float32)
    return rounded

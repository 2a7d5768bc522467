"""The time that pruned networks take on a device: exported with random weights and run, or layer by layer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.shrink import shrink
from jcw_core.network.weight_groups import density_mask
from jcw_core.protocols import Calibration, ComputesHalf, Quantizes
from jcw_latency.devices.guarded import GuardedDevice

_NOISE = 2
"""Images by which numbers are chosen of networks whose weights are random."""


def network_seconds(
    network: Network,
    chosen: Sequence[Architecture],
    device: GuardedDevice,
    rounds: int,
    rng: np.random.Generator,
    folder: Path,
) -> NDArray[np.float64]:
    """Seconds (rounds, len(chosen)) of some members of a network's space, each once per round.

    Args:
        network: at full width.
        chosen: the members.
        device: where they run; without an exporter their layers are timed one by one and added up.
        rounds: how often.
        rng: source of the weights.
        folder: for model files, which are removed again.

    Raises:
        DeviceError: the device died or hung.
    """
    if device.exporter is None:
        return _layer_by_layer(network, chosen, device, rounds)
    exporter = device.exporter
    if device.precision == "int8" and isinstance(exporter, Quantizes):
        noise = np.random.default_rng(0).standard_normal((_NOISE, *network.input_shape), dtype=np.float32)
        exporter = exporter.calibrated(noise, Calibration(products=device.products))
    elif device.precision == "float16" and isinstance(exporter, ComputesHalf):
        exporter = exporter.in_half_precision()
    paths = [folder / f"check-{index}{exporter.suffix}" for index in range(len(chosen))]
    try:
        for path, architecture in zip(paths, chosen, strict=True):
            exporter.export(random_model(network, architecture, rng), path)
        return device.measure_models(paths, rounds)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _layer_by_layer(
    network: Network, chosen: Sequence[Architecture], device: GuardedDevice, rounds: int
) -> NDArray[np.float64]:
    layers = []
    for architecture in chosen:
        small = shrink(network, architecture)
        layers.append(
            [problem_of(small, layer, architecture.densities.get(layer.name, 1.0)) for layer in fuse(network)]
        )
    seconds = device.measure(list(itertools.chain.from_iterable(layers)), rounds)
    stops = np.cumsum([len(problems) for problems in layers])
    return np.stack([part.sum(axis=1) for part in np.split(seconds, stops[:-1], axis=1)], axis=1)


def medians_ms(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median over rounds (rounds, n) of the timings that did not fail, milliseconds; NaN without any."""
    found = np.full(seconds.shape[1], np.nan)
    timed = np.isfinite(seconds).any(axis=0)
    found[timed] = np.nanmedian(seconds[:, timed], axis=0) * 1e3
    return found


def random_model(network: Network, architecture: Architecture, rng: np.random.Generator) -> Model:
    """An architecture with random weights: what it computes is nonsense, what it costs is not."""
    small = shrink(network, architecture)
    return Model(small, dict(_weights(small, architecture, rng)), architecture)


def _weights(
    network: Network, architecture: Architecture, rng: np.random.Generator
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for name, shape in {**network.parameter_shapes, **network.buffer_shapes}.items():
        layer, _, key = name.rpartition(".")
        if network[layer].op == "batch_norm" or key == "bias":
            yield name, np.full(shape, key in ("weight", "running_var"), dtype=np.float32)
            continue
        # He et al. 2015, so that activations stay in a normal range on the way through.
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2 / np.prod(shape[1:])))
        if layer in architecture.densities:
            values *= density_mask(values, architecture.densities[layer])
        yield name, values

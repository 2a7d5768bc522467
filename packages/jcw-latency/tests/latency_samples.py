"""A device whose times are a formula, with the exporter and the plugin that go with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_core.network.weight_groups import weight_density
from jcw_core.options import option
from jcw_core.protocols import DeviceInfo
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyOptions, LatencyTable, profile
from jcw_latency.table.axes import has_channel_pair


def quick_options(**changes: Any) -> LatencyOptions:
    grid = {} if changes.get("adaptive") else {"widths": 4, "densities": 5}
    return LatencyOptions(**{**grid, "min_rounds": 2, "rounds": 6, **changes})


def seconds_of(p: LayerProblem) -> float:
    """Linear in each channel count and in density, and 0 at width 0, so interpolation is exact."""
    area = p.in_height * p.in_width
    if p.then is not None:
        return seconds_of(replace(p, then=None)) + seconds_of(p.then)
    if not has_channel_pair(p):
        return 1e-9 * area * p.in_channels * (2 if p.residual else 1)
    taps = p.kernel_size[0] * p.kernel_size[1] * p.out_height * p.out_width
    return 1e-9 * p.in_channels * p.out_channels * (taps * p.density + 0.2 * area + 3)


def network_seconds(network: Network, densities: dict[str, float]) -> float:
    return sum(seconds_of(problem_of(network, u, densities.get(u.name, 1.0))) for u in fuse(network))


@dataclass
class SyntheticDevice:
    """Args: noise: relative, log-normal; overhead: of a whole model, seconds.

    ``timed`` holds the problems of every call but the first, which is a profile's reference.
    """

    noise: float = 0.0
    seed: int = 0
    overhead: float = 0.0
    model_format: str = "text"

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.timed: list[LayerProblem] = []

    def describe(self) -> DeviceInfo:
        return DeviceInfo("synthetic", "formula", "none", 1, {"formula": "1"})

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        self.timed += problems[1:]
        return self._noisy([seconds_of(p) for p in problems], rounds)

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        documents = [json.loads(path.read_text()) for path in paths]
        exact = [
            network_seconds(Network.from_json(d["network"]), d["densities"]) + self.overhead
            for d in documents
        ]
        return self._noisy(exact, rounds)

    def _noisy(self, exact: Sequence[float], rounds: int) -> NDArray[np.float64]:
        return np.tile(exact, (rounds, 1)) * np.exp(
            self.noise * self.rng.standard_normal((rounds, len(exact)))
        )


def measured(
    network: Network, device: SyntheticDevice, checkpoint: Path | None = None, **changes: float
) -> LatencyTable:
    """A quick profile with some options changed."""
    return profile(
        network, device, quick_options(**changes), rng=np.random.default_rng(0), checkpoint=checkpoint
    )


def assert_same_times(one: LatencyTable, other: LatencyTable) -> None:
    for grid, same in zip(one.grids, other.grids, strict=True):
        np.testing.assert_array_equal(grid.ms, same.ms)


def is_corner(space: SearchSpace, architecture: Architecture, width: str, density: str) -> bool:
    values = space.row(architecture)
    ends = {"low": space.low, "high": space.maximum}
    return all(
        value == ends[width if variable.kind == "width" else density][index]
        for index, (variable, value) in enumerate(zip(space.variables, values, strict=True))
    )


CORNERS = (("low", "low"), ("high", "high"), ("high", "low"), ("low", "high"))


class TextExporter:
    """Writes what the formula needs: the network, and the density of each layer."""

    name = "text"
    suffix = ".txt"

    def export(self, model: Model, path: Path) -> None:
        densities = {
            node.name: weight_density(model.weights[f"{node.name}.weight"])
            for node in model.network
            if node.op in ("conv2d", "linear")
        }
        path.write_text(json.dumps({"network": model.network.to_json(), "densities": densities}))


@dataclass(frozen=True)
class SyntheticOptions:
    noise: float = option(0.0, low=0.0)


class SyntheticPlugin:
    name = "synthetic"
    options = SyntheticOptions

    def open(self, options: SyntheticOptions) -> SyntheticDevice:
        return SyntheticDevice(options.noise)


class Plugin:
    """Registers the device and its exporter."""

    @hookimpl
    def jcw_register_devices(self) -> list[SyntheticPlugin]:
        return [SyntheticPlugin()]

    @hookimpl
    def jcw_register_exporters(self) -> list[TextExporter]:
        return [TextExporter()]

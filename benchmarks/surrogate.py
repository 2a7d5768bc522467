"""Search spaces with a latency table and an error whose true front can be known.

The error's shape follows the paper's ResNet-18 models (about 30.8 % at 160 ms, 29.9 % at 224 ms): it grows
with the share of each layer that is cut, the more the larger the layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.backbones.mobilenet_v1 import MOBILENET_V1
from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.errors import FormatError
from jcw_core.network.graph import Network
from jcw_core.protocols import DeviceInfo
from jcw_core.space.space import Population, SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, table_from_arrays
from jcw_search import Fixed

Floats = NDArray[np.float64]

BACKBONES = {"resnet18": RESNET18, "mobilenet_v1": MOBILENET_V1, "mobilenet_v2": MOBILENET_V2}
FLOORS: Mapping[str, float] = {"resnet18": 0.295, "mobilenet_v1": 0.29, "mobilenet_v2": 0.28}
"""Error of the whole network, as the papers have it."""

PAPER_BUDGETS_MS = (100.0, 120.0, 160.0, 200.0, 224.0)
"""Where the paper's Cortex-A72 fronts are compared."""


@dataclass(frozen=True)
class World:
    """A space, its latency and its true error.

    Args:
        space: where to search.
        latency: predictions of a table, in ms.
        error: true error.
        budgets_ms: latencies within which the best is compared.
    """

    space: SearchSpace
    latency: Fixed
    error: Surrogate
    budgets_ms: tuple[float, ...]

    @property
    def limits(self) -> Floats:
        """(2, 2) latency and error of the smallest and the largest architecture, errors from the floor."""
        corners = np.stack([self.space.low, self.space.high])
        return self.values(corners)

    def values(self, population: Population) -> Floats:
        """(n, 2) latency, and error above that of the whole network."""
        errors = self.error(self.space, population) - self.error.floor
        return np.stack([self.latency.evaluate(self.space, population), errors], axis=1)


class Surrogate:
    """Error that grows with the share of each layer that is cut, the more the larger the layer."""

    def __init__(self, network: Network, floor: float) -> None:
        self.floor = floor
        self._network = network
        convolved = [node for node in network if node.op == "conv2d" and node.attributes["groups"] == 1]
        self._layers = [n.name for n in convolved if network[n.inputs[0]].op != "input"]
        sizes = [np.prod(network.parameter_shapes[f"{name}.weight"]) for name in self._layers]
        self._weights = np.sqrt(sizes) / np.sqrt(sizes).sum()

    def __call__(self, space: SearchSpace, population: Population) -> Floats:
        """True error, (n,)."""
        columns = [
            space.channels(population, name)
            / self._network.shapes[name][0]
            * np.sqrt(space.density(population, name))
            for name in self._layers
        ]
        cut = (1 - np.stack(columns, axis=1)) ** 8 @ self._weights
        error: Floats = self.floor + 0.69 * (1 - np.exp(-10 * cut))
        return error


class Estimate:
    """An evaluator that sees the error through noise, drawn anew in each generation where it grows stale."""

    def __init__(self, error: Surrogate, noise: float, stale: bool, rng: np.random.Generator) -> None:
        self._error, self._noise, self._stale, self._rng = error, noise, stale, rng

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Estimates of the parents are drawn again where they are not kept."""
        return self._stale and generation > 0

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        """Noisy error, (n,)."""
        return self._error(space, population) + self._rng.normal(0, self._noise, len(population))


def paper_world(folder: Path) -> World:
    """ResNet-18 and the published Cortex-A72 table."""
    network = RESNET18.build()
    return _world("resnet18", network, reference_table(folder, network), PAPER_BUDGETS_MS)


def host_world(name: str, path: Path) -> World:
    """A backbone and a table that ``jcw profile NAME --device host --adaptive`` made."""
    network = BACKBONES[name].build()
    world = _world(name, network, LatencyTable.load(path), ())
    low, high = world.limits[:, 0]
    # The same shares of the range as the paper's budgets on its own table.
    shares = (0.165, 0.22, 0.335, 0.445, 0.515)
    return World(
        world.space, world.latency, world.error, tuple(float(low + s * (high - low)) for s in shares)
    )


def _world(name: str, network: Network, table: LatencyTable, budgets_ms: tuple[float, ...]) -> World:
    space = SearchSpace.of(network, defaults=BACKBONES[name].bounds)
    predictor = LatencyPredictor(table, space)
    latency = Fixed(lambda _, population: predictor.predict(population), exact=True)
    return World(space, latency, Surrogate(network, FLOORS[name]), budgets_ms)


def reference_table(folder: Path, network: Network) -> LatencyTable:
    """The published Cortex-A72 table; layers that it does not have cost nothing."""
    try:
        milliseconds = np.load(folder / "runtime.npy", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FormatError(f"{folder}/runtime.npy: {error}; give the folder of the published table") from None
    arrays: dict[str, Floats] = {}
    axes: dict[str, tuple[str, ...]] = {}
    # In the table a block's shortcut comes after its two others, which is alphabetical.
    names = sorted(node.name for node in network if node.op == "conv2d")
    for name, grid in zip(names, milliseconds, strict=True):
        first = network[name].inputs[0] == network.input.name
        # The first layer was measured with its three input channels only, at index 2 of that axis.
        arrays[name] = grid[:, 2, -1] if first else grid
        axes[name] = ("out",) if first else ("out", "in", "density")
    device = DeviceInfo("recorded", "Cortex-A72", "neon", 1)
    return table_from_arrays(network, arrays, axes=axes, device=device, others="free")

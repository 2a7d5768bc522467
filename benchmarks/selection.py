"""Uniform selection against plain NSGA-II: the paper's selection figure, on its own latency table.

The error is a surrogate, so that the true front is known. Its shape follows the paper's ResNet-18 models (about
30.8 % at 160 ms, 29.9 % at 224 ms), and every estimate carries Gaussian noise. `reestimated` noise
is drawn again in each generation, as when the supernet is trained again (algorithm 1); `kept` noise
stays with an architecture, as with a supernet that is trained once; `none` is the exact error.

    python benchmarks/selection.py --out docs/results/selection.json
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import PAPER_TABLE, Row, command_line, machine, subplots, versions, write
from numpy.typing import NDArray

from jcw_core.backbones.resnet import RESNET18
from jcw_core.errors import FormatError, JcwError
from jcw_core.network.graph import Network
from jcw_core.protocols import DeviceInfo, Selection
from jcw_core.space.space import Population, SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable, table_from_arrays
from jcw_search import Fixed, Nsga2Selection, SearchResult, UniformSelection, search
from jcw_search.pareto import hypervolume

Floats = NDArray[np.float64]

NOISE = 0.03
STRATEGIES: dict[str, Selection] = {
    "uniform N=4": UniformSelection(4),
    "uniform N=64": UniformSelection(64),
    "nsga2": Nsga2Selection(),
}
MODES = ("reestimated", "kept", "none")


def reference_table(folder: Path, network: Network) -> LatencyTable:
    """The published Cortex-A72 table; layers that it does not have cost nothing."""
    try:
        milliseconds = np.load(folder / "runtime.npy", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FormatError(f"{folder}/runtime.npy: {error}; give the folder of the published table") from None
    arrays: dict[str, Floats] = {}
    axes: dict[str, tuple[str, ...]] = {}
    for name, grid in zip(convolutions(network), milliseconds, strict=True):
        first = network[name].inputs[0] == network.input.name
        # The first layer was measured with its three input channels only, at index 2 of that axis.
        arrays[name] = grid[:, 2, -1] if first else grid
        axes[name] = ("out",) if first else ("out", "in", "density")
    device = DeviceInfo("recorded", "Cortex-A72", "neon", 1)
    return table_from_arrays(network, arrays, axes=axes, device=device, others="free")


def convolutions(network: Network) -> list[str]:
    """Convolutions in the table's order: a block's shortcut after its two others, which is alphabetical."""
    return sorted(node.name for node in network if node.op == "conv2d")


class Surrogate:
    """Error that grows with the share of each layer that is cut, the more the larger the layer."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._layers = [name for name in convolutions(network) if name != "conv1"]
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
        error: Floats = 0.295 + 0.69 * (1 - np.exp(-10 * cut))
        return error


class Estimate:
    """An evaluator that sees the error through noise."""

    def __init__(self, error: Surrogate, mode: str, rng: np.random.Generator) -> None:
        self._error, self._mode, self._rng = error, mode, rng

    def begin_generation(self, population: Population, generation: int) -> bool:
        """Estimates of the parents are drawn again where they are not kept."""
        return self._mode == "reestimated" and generation > 0

    def evaluate(self, space: SearchSpace, population: Population) -> Floats:
        """Noisy error, (n,)."""
        noise = 0.0 if self._mode == "none" else NOISE
        return self._error(space, population) + self._rng.normal(0, noise, len(population))


def run(args: argparse.Namespace) -> Iterator[Row]:
    """One row per mode, strategy and seed."""
    network = RESNET18.build()
    space = SearchSpace.of(network, defaults=RESNET18.bounds)
    predictor = LatencyPredictor(reference_table(args.table, network), space)
    error = Surrogate(network)
    for mode in MODES:
        for seed in range(1 if args.quick else args.seeds):
            for name, strategy in STRATEGIES.items():
                result = search(
                    space,
                    {
                        "latency": Fixed(lambda _, population: predictor.predict(population)),
                        "error": Estimate(error, mode, np.random.default_rng([seed, 1])),
                    },
                    selection=strategy,
                    population=args.population,
                    generations=5 if args.quick else args.generations,
                    seed=seed,
                )
                setting = {"strategy": name, "noise": mode, "seed": seed}
                yield setting | measure(result, predictor.predict, error)


def measure(result: SearchResult, latency: Callable[[Population], Floats], error: Surrogate) -> Row:
    """True hypervolumes over the box between the smallest and the largest architecture, and latencies."""
    space = result.space
    truth = np.stack([result.objectives[:, 0], error(space, result.values)], axis=1)
    corners = np.stack([space.low, space.high])
    limits = np.stack([latency(corners), error(space, corners)], axis=1)
    floor = np.array([0, limits[:, 1].min()])
    share = (result.population_latency - limits[0, 0]) / (limits[1, 0] - limits[0, 0])
    return {
        "generations": len(result.hypervolume) - 1,
        "evaluated": len(result.values),
        "front_hypervolume": hypervolume(truth[result.front] - floor, limits - floor),
        "population_hypervolume": hypervolume(truth[result.population] - floor, limits - floor),
        "latency_quartiles": np.quantile(share, [0.25, 0.5, 0.75]).tolist(),
        "population_latency_ms": result.population_latency.tolist(),
    }


def summary(rows: list[Row]) -> str:
    """A table for people: means over the seeds."""
    lines = ["noise        strategy      front   population   latency quartiles (share of the range)"]
    for mode in MODES:
        for name in STRATEGIES:
            own = [row for row in rows if (row["noise"], row["strategy"]) == (mode, name)]
            front, population = (
                np.mean([row[key] for row in own]) for key in ("front_hypervolume", "population_hypervolume")
            )
            quartiles = np.mean([row["latency_quartiles"] for row in own], axis=0)
            lines.append(
                f"{mode:12} {name:13} {front:.3f}   {population:.3f}        "
                + "  ".join(f"{q:.2f}" for q in quartiles)
            )
    return "\n".join(lines)


def draw(rows: list[Row]) -> Any:
    """Latency histograms of the last populations and their hypervolumes."""
    figure, [axes] = subplots(1, len(MODES) + 1, 15, 3.6)
    for axis, mode in zip(axes, MODES, strict=False):
        own = {
            name: [
                ms
                for r in rows
                if (r["noise"], r["strategy"]) == (mode, name)
                for ms in r["population_latency_ms"]
            ]
            for name in STRATEGIES
        }
        axis.hist(list(own.values()), bins=16, label=list(own))
        axis.set(title=f"noise: {mode}", xlabel="latency of the last population (ms)", ylabel="architectures")
    axes[0].legend()
    for index, name in enumerate(STRATEGIES):
        own_rows = [r for r in rows if r["strategy"] == name]
        x = [MODES.index(r["noise"]) + 0.12 * (index - 1) for r in own_rows]
        axes[-1].plot(x, [r["population_hypervolume"] for r in own_rows], "o", label=name)
    axes[-1].set(title="true hypervolume of the last population", xticks=range(len(MODES)), xticklabels=MODES)
    return figure


def main() -> None:
    """Parse the command line and run."""
    parser = command_line(__doc__, quick="one seed, five generations")
    parser.add_argument("--table", type=Path, default=PAPER_TABLE, help="folder of the published table")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--population", type=int, default=64)
    parser.add_argument("--generations", type=int, default=60)
    args = parser.parse_args()
    try:
        rows = list(run(args))
    except JcwError as error:
        sys.exit(f"error: {error}")
    print(summary(rows))
    if args.out:
        used = versions("jcw-core", "jcw-latency", "jcw-search", "moocore", "numpy")
        # The latencies are the paper's.
        ran = machine(system=platform.system(), table="Cortex-A72")
        write(args.out, {"machine": ran, "versions": used, "rows": rows}, draw(rows))


if __name__ == "__main__":
    main()

"""Searches on spaces whose true front is known: budgets, variants and noise; uniform selection and NSGA-II.

Every estimate of the error carries Gaussian noise. `kept` noise stays with an architecture, as with a supernet
that is trained once; `reestimated` noise is drawn again in each generation, as when the supernet is
trained again (algorithm 1). ResNet-18 has the paper's Cortex-A72 table, the MobileNets those of this machine:

    jcw profile mobilenet_v1 --device host --adaptive -o tables/mobilenet_v1.npz
    python benchmarks/selection.py --tables tables --out docs/results/selection.json

It takes hours; interrupted, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from harness import PAPER_TABLE, Row, command_line, machine, versions, write
from resumable import forget, rows_of
from search_bound import bound
from selection_figure import draw, summary
from surrogate import Estimate, Floats, World, host_world, paper_world

from jcw_core.errors import JcwError
from jcw_core.protocols import Selection
from jcw_core.space.space import Population, SearchSpace
from jcw_search import Fixed, Nsga2Selection, SearchResult, UniformSelection, search
from jcw_search.pareto import hypervolume

STRATEGIES: dict[str, Selection] = {
    "uniform N=4": UniformSelection(4),
    "uniform N=64": UniformSelection(64),
    "nsga2": Nsga2Selection(),
}
NOISES = (0.0, 0.014, 0.03)
VARIANTS = ("channels", "weights", "sequential", "joint")
POPULATION = 64


def settings(networks: list[str], seeds: int, quick: bool) -> Iterator[Row]:
    """What is searched, by network, algorithm, variant, noise, evaluations and seed."""
    few, many, most = (128, 192, 256) if quick else (384, 832, 8192)
    for network in networks:
        yield {"network": network, "search": "bound"}
    for network, seed, noise in product(networks, range(seeds), NOISES):
        common = {"network": network, "noise": noise, "seed": seed}
        for variant in VARIANTS if noise == 0 else ("joint",):
            # The paper's 128 generations after the first.
            yield common | {"search": "plain", "variant": variant, "evaluations": most + POPULATION}
        yield common | {"search": "plain", "variant": "joint", "evaluations": many}
        for evaluations in (few, many):
            yield common | {"search": "assisted", "variant": "joint", "evaluations": evaluations}
    for network in networks:
        # Minutes each, so one seed of the others has to do.
        for seed in range(seeds if network == "resnet18" else 1):
            common = {"network": network, "noise": 0.0, "seed": seed}
            yield common | {"search": "assisted", "variant": "joint", "evaluations": most}


def strategies(seeds: int) -> Iterator[Row]:
    """The paper's comparison of selection strategies, on its own table."""
    for mode in ("reestimated", "kept", "none"):
        for seed in range(seeds):
            for name in STRATEGIES:
                yield {
                    "network": "resnet18",
                    "search": "plain",
                    "strategy": name,
                    "noise": mode,
                    "seed": seed,
                }


def generation_ms(world: World, quick: bool) -> Row:
    """CPU time of a plain generation of 64 and 64 beside its objectives, of 128 in a row."""
    spent = [0.0]

    def timed(function: Callable[..., Floats]) -> Fixed:
        def value(space: SearchSpace, population: Population) -> Floats:
            began = time.process_time()
            found = function(space, population)
            spent[0] += time.process_time() - began
            return found

        return Fixed(value)

    marks: list[tuple[float, float]] = []
    search(
        world.space, {"latency": timed(world.latency.evaluate), "error": timed(world.error)},
        algorithm="plain", generations=10 if quick else 128,
        callback=lambda _: marks.append((time.process_time(), spent[0])),
    )  # fmt: skip
    own = 1000 * np.diff(np.array(marks), axis=0) @ [1, -1]
    return {"median_ms": float(np.median(own)), "largest_ms": float(own.max())}


def measured(world: World, setting: Row) -> Row:
    """Run one setting."""
    began = time.perf_counter()
    if setting["search"] == "bound":
        row = _bounded(world)
    elif setting["search"] == "one generation":
        row = generation_ms(world, setting["quick"])
    elif "strategy" in setting:
        row = _selected(world, setting)
    else:
        row = _budgeted(world, setting)
    return row | {"seconds": time.perf_counter() - began}


def _bounded(world: World) -> Row:
    low, high = world.limits[:, 0]
    spread = np.linspace(low, high, 42)[1:-1]
    budgets = np.unique(np.concatenate([spread, world.budgets_ms]))
    values = world.values(bound(world, budgets, np.random.default_rng(0)))
    errors = [values[list(budgets).index(b), 1] + world.error.floor for b in world.budgets_ms]
    return {"budgets_ms": list(world.budgets_ms), "errors": errors, "hypervolume": _volume(world, values)}


def _budgeted(world: World, setting: Row) -> Row:
    """True error of what a search would hand over as its best within each budget."""
    result = _searched(
        world, setting["noise"], False, setting["seed"], algorithm=setting["search"],
        variant=setting["variant"], generations=setting["evaluations"] // POPULATION - 1,
    )  # fmt: skip
    front, truth = result.front, world.values(result.values)
    errors = []
    for budget in world.budgets_ms:
        # The front falls by what chose it, so that its slowest within a budget is the best.
        fits = np.flatnonzero(result.objectives[front, 0] <= budget)
        errors.append(float(truth[front[fits[-1]], 1] + world.error.floor) if len(fits) else None)
    return {
        "evaluated": len(result.values),
        "budgets_ms": list(world.budgets_ms),
        "errors": errors,
        "hypervolume": _volume(world, truth[front]),
    }


def _selected(world: World, setting: Row, generations: int = 60) -> Row:
    """True hypervolumes of the front and of the last population, and its latencies."""
    mode, noise = setting["noise"], 0.0 if setting["noise"] == "none" else 0.03
    result = _searched(
        world, noise, mode == "reestimated", setting["seed"], algorithm="plain",
        selection=STRATEGIES[setting["strategy"]], generations=setting.get("generations", generations),
    )  # fmt: skip
    truth, (low, high) = world.values(result.values), world.limits[:, 0]
    share = (result.population_latency - low) / (high - low)
    return {
        "generations": len(result.hypervolume) - 1,
        "evaluated": len(result.values),
        "front_hypervolume": _volume(world, truth[result.front]),
        "population_hypervolume": _volume(world, truth[result.population]),
        "latency_quartiles": np.quantile(share, [0.25, 0.5, 0.75]).tolist(),
        "population_latency_ms": result.population_latency.tolist(),
    }


def _searched(world: World, noise: float, stale: bool, seed: int, **settings: object) -> SearchResult:
    error = Estimate(world.error, noise, stale, np.random.default_rng([seed, 1]))
    evaluators = {"latency": world.latency, "error": error}
    return search(world.space, evaluators, population=POPULATION, seed=seed, **settings)  # type: ignore[arg-type]


def _volume(world: World, values: Floats) -> float:
    return hypervolume(values, world.limits)


def run(args: argparse.Namespace) -> list[Row]:
    """All rows, those of the budgets first."""
    tables = {path.stem: path for path in sorted(args.tables.glob("*.npz"))} if args.tables else {}

    @lru_cache
    def world(network: str) -> World:
        return paper_world(args.table) if network == "resnet18" else host_world(network, tables[network])

    seeds = 1 if args.quick else args.seeds
    wanted = [
        {"network": "resnet18", "search": "one generation", "quick": args.quick},
        *settings(["resnet18", *tables], seeds, args.quick),
        *strategies(seeds),
    ]
    if args.quick:
        wanted = [row | {"generations": 5} if "strategy" in row else row for row in wanted]
    found = []
    for row in rows_of(wanted, lambda setting: measured(world(setting["network"]), setting), args.out):
        print(
            {key: row[key] for key in row if key not in ("population_latency_ms", "budgets_ms")}, flush=True
        )
        found.append(row)
    return found


def main() -> None:
    """Parse the command line and run."""
    parser = command_line(__doc__, quick="one seed, few evaluations, ResNet-18 alone")
    parser.add_argument("--table", type=Path, default=PAPER_TABLE, help="folder of the published table")
    parser.add_argument("--tables", type=Path, help="folder of the MobileNets' tables, NAME.npz")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    try:
        rows = run(args)
    except JcwError as error:
        sys.exit(f"error: {error}")
    print(summary(rows))
    if args.out:
        used = versions("jcw-core", "jcw-latency", "jcw-search", "moocore", "numpy")
        # The latencies are the paper's, or those of the machine that made the tables.
        ran = machine(system=platform.system(), table="Cortex-A72")
        write(args.out, {"machine": ran, "versions": used, "rows": rows}, draw(rows))
        forget(args.out)


if __name__ == "__main__":
    main()

"""The searches of the ablation: each gives a row with its hypervolume and the models it would hand over."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from ablation_supernet import Estimator, Floats, Retrained, supernet
from ablation_world import World, rng_of
from harness import Row

from jcw_core.space.space import Population
from jcw_search import Nsga2Selection, UniformSelection, search
from jcw_search.pareto import hypervolume, non_dominated

SELECTIONS = {"uniform": UniformSelection(), "nsga2": Nsga2Selection()}


@dataclass(frozen=True, slots=True)
class Search:
    """One search.

    Args:
        variant: what varies: ``joint``, ``channels``, ``weights``, ``sequential``; or ``random``.
        selection: ``assisted``, or by name one of the plain search, which then sees rough estimates.
        schedule: of the supernet, ``continuous`` or ``per-generation``.
    """

    variant: str
    selection: str = "assisted"
    schedule: str = "continuous"


VARIANTS = [Search(name) for name in ("joint", "channels", "weights", "sequential")]
SPREADS = [Search("joint", name) for name in SELECTIONS]
OTHERS = [Search("joint", schedule="per-generation"), Search("random", "random")]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Args:
        rows: (n, dimensions) its front, by rising latency.
        evaluated: how many architectures were.
        population_ms: latencies of its last population.
    """

    rows: Population
    evaluated: int
    population_ms: Floats


def searched(world: World, seed: int, wanted: Search) -> Row:
    """Search, and describe what was found."""
    ruler = Estimator.of(world, supernet(world, seed), seed)
    began = time.process_time()
    estimator = _estimator(world, seed, wanted, ruler)
    found = (
        _random(world, seed, ruler) if wanted.variant == "random" else _found(world, seed, wanted, estimator)
    )
    own = time.process_time() - began
    volume, models = described(world, ruler, found.rows)
    return {
        "kind": "search", "network": world.settings.network, "dataset": "cifar10", "variant": wanted.variant,
        "selection": wanted.selection, "schedule": wanted.schedule, "seed": seed,
        "evaluations": found.evaluated, "hypervolume": volume,
        "latency_quartiles_ms": np.quantile(found.population_ms, [0.25, 0.5, 0.75]).tolist(),
        "population_latency_ms": np.sort(found.population_ms).tolist(),
        # What had been evaluated before it was interrupted takes no time again, but counts.
        "seconds": max(own, estimator.seconds),
        "models": models,
    }  # fmt: skip


def described(world: World, ruler: Estimator, rows: Population) -> tuple[float, list[Row]]:
    """Hypervolume of a front on images that no search has seen, and the best model within each budget by these."""
    again, latency = ruler.again(rows), world.latency_ms(rows)
    corners = np.stack([world.space.low, world.space.high])
    limits = np.stack([world.latency_ms(corners), ruler.again(corners)], axis=1)
    models = []
    for budget in world.budgets_ms:
        fits = np.flatnonzero(latency <= budget)
        if len(fits):
            best = fits[np.lexsort((latency[fits], again[fits]))[0]]
            models.append(model_of(world, rows[best], budget, search_error=float(again[best])))
    return hypervolume(np.stack([latency, again], axis=1), limits), models


def model_of(world: World, row: Population, budget_ms: float | None, **more: Any) -> Row:
    """A model to train, before it is: what was asked for, what is predicted, what it keeps."""
    return {
        "requested_ms": budget_ms,
        "predicted_ms": float(world.latency_ms(row[None])[0]),
        "architecture": world.space.architecture(row).to_dict(),
        **more,
    }


def _estimator(world: World, seed: int, wanted: Search, ruler: Estimator) -> Estimator:
    if wanted.selection in SELECTIONS:
        return Estimator.rough(world, ruler.module, seed)
    if wanted.schedule == "continuous":
        return ruler
    warm = supernet(world, seed, world.settings.supernet.epochs // 2)
    found = Retrained.of(world, warm, seed, "estimates-per-generation")
    assert isinstance(found, Retrained)
    return found.prepare(seed, _generations(world, wanted))


def _generations(world: World, wanted: Search) -> int:
    """As many as make the evaluations equal: stale weights have parents evaluated again."""
    settings = world.settings
    if wanted.selection in SELECTIONS:
        return settings.rough_generations
    return settings.generations if wanted.schedule == "continuous" else max(1, settings.generations // 2)


def _found(world: World, seed: int, wanted: Search, estimator: Estimator) -> Found:
    plain = wanted.selection in SELECTIONS
    result = search(
        world.space, {"latency": world.latency, "loss": estimator},
        algorithm="plain" if plain else "assisted",
        selection=SELECTIONS[wanted.selection] if plain else None,
        population=world.settings.population, generations=_generations(world, wanted),
        variant=wanted.variant, seed=seed,  # type: ignore[arg-type]
    )  # fmt: skip
    return Found(result.values[result.front], len(result.values), result.population_latency)


def _random(world: World, seed: int, estimator: Estimator) -> Found:
    """As many random architectures as a search evaluates, and those that no other beats."""
    rows = world.space.sample(world.settings.evaluations, rng_of("random", seed))
    losses, latency = estimator.evaluate(world.space, rows), world.latency_ms(rows)
    return Found(rows[non_dominated(np.stack([latency, losses], axis=1))], len(rows), latency)


def fidelity_sample(world: World, seed: int) -> Row:
    """Random networks and what the supernet says of them, to be trained."""
    ruler = Estimator.of(world, supernet(world, seed), seed)
    rows = world.space.sample(world.settings.fidelity_networks, rng_of("fidelity", seed))
    estimates = ruler.evaluate(world.space, rows)
    models = [
        model_of(world, row, None, search_loss=float(e)) for row, e in zip(rows, estimates, strict=True)
    ]
    return {
        "kind": "fidelity", "network": world.settings.network, "dataset": "cifar10", "seed": seed, "models": models
    }  # fmt: skip

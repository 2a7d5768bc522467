"""Whether the search ranks networks as training does: Kendall's tau between estimates and trained errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import JcwError
from jcw_core.files import digest, write_json
from jcw_core.protocols import Configured, Objective
from jcw_core.recipe.recipe import canonical
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import is_finished
from jcw_core.space.space import Population
from jcw_core.supernet.draws import Draws
from jcw_core.supernet.evaluation import score_network
from jcw_core.supernet.options import search_variant
from jcw_core.training.accelerator import arithmetic_of, lanes
from jcw_core.training.batches import EVALUATED, FixedImages, TrainingImages
from jcw_core.training.module import Slimmable
from jcw_retrain.fidelity_section import FORMAT, RANK_FIDELITY
from jcw_retrain.fitting import Fitting
from jcw_retrain.kendall import CONFIDENCE, RESAMPLES, kendall_tau, tau_interval
from jcw_retrain.lanes import side_by_side
from jcw_retrain.options import RetrainOptions, phases, shortened

FEWEST = 5
"""Networks below which tau says nothing."""
_STAGE = "rank-fidelity"


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is compared.

    Args:
        objective: whose estimates.
        networks: how many random ones, drawn as the supernet draws them.
        epochs: of each network's training.
        seed: of the networks.
    """

    objective: str
    networks: int
    epochs: int
    seed: int


def rank_fidelity(context: Context, sampling: Sampling) -> dict[str, Any]:
    """Train random networks alone, compare, and write ``rank_fidelity.json``.

    Estimates are the search's own, on the images that it uses. The trained networks are scored on the
    images held out for re-evaluation. Networks that a run before has trained are not trained again.

    Returns:
        the content of the file.

    Raises:
        PluginError: no such objective.
        JcwError: a stage that the objective needs has not run, nothing would be trained, or the space has fewer than five
            networks.
    """
    objective = context.registry.objectives[sampling.objective]
    _require_training(context, sampling)
    with context.directory.locked():
        _require(context, objective)
        inside = _Inside(context.directory.root)
        inside.claim(context, objective, sampling)
        own = Context(context.recipe, context.registry, inside)
        rows = _rows(own, sampling)
        evaluator = objective.open(own)
        evaluator.begin_generation(rows, 0)
        estimates = evaluator.evaluate(own.space, rows)
        work = _Work(own, rows, sampling.epochs)
        count = own.recipe.run.threads
        errors = side_by_side(work.error, range(len(rows)), count, work.stop, work.lanes)
        sampling = replace(sampling, networks=len(rows), epochs=work.epochs)
        document = _compared(own, rows, estimates, np.array(errors), sampling)
        document["inputs"] = {name: digest(own.path(name)) for name in objective.needs}
        write_json(own.path(RANK_FIDELITY), document)
        inside.clear()
    return document


def _require_training(context: Context, sampling: Sampling) -> None:
    found = phases(context.options(RetrainOptions), context.recipe.network.backbone)
    if not shortened(found, sampling.epochs).epochs:
        raise JcwError(
            f"{context.recipe.path}: the phases of [retrain] have no epochs, and networks that nobody trains say nothing "
            "of an order; set retrain.finetune.epochs"
        )


def _require(context: Context, objective: Objective) -> None:
    """Raise ``JcwError`` unless what the objective reads was made from the recipe as it is now."""
    for stage in context.registry.stages.values():
        if set(stage.makes) & set(objective.needs) and not is_finished(context, stage.name):
            raise JcwError(
                f"{context.directory.root}: stage {stage.name!r} has not run, or not with the recipe as it is now; "
                f"jcw run {context.recipe.path} --until {stage.name}"
            )


class _Inside(RunDirectory):
    """A run's directory whose scratch folders are apart from those of its stages."""

    def scratch(self, stage: str) -> Path:
        """A folder below that of the fidelity."""
        folder = self.root / ".state" / _STAGE / stage
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def claim(self, context: Context, objective: Objective, sampling: Sampling) -> None:
        """Empty the scratch folder unless it was made for the same comparison."""
        tables = ["run", "network", "data", "space", "retrain"]
        if isinstance(objective, Configured):
            tables += objective.reads
        parts = {name: canonical(context.recipe.table(name)) for name in tables}
        files = {name: self.path(name) for name in objective.needs}
        key = self.inputs_key(parts | {"sampling": canonical(asdict(sampling))}, files)
        RunDirectory(self.root).claim_scratch(_STAGE, key)

    def clear(self) -> None:
        """Remove it."""
        shutil.rmtree(self.root / ".state" / _STAGE)


def _rows(context: Context, sampling: Sampling) -> Population:
    """Different networks, of those that the search visits."""
    draws = Draws(context.space, search_variant(context.recipe))
    rng = context.rng(_STAGE, sampling.seed)
    drawn = np.concatenate(list(draws.steps(0, 20 * sampling.networks, rng)))
    _, first = np.unique(drawn, axis=0, return_index=True)
    if len(first) < FEWEST:
        raise JcwError(
            f"the space of {context.network.name} has {len(first)} networks; an order takes {FEWEST}"
        )
    return drawn[np.sort(first)[: sampling.networks]]


class _Work:
    """What the networks have in common while they are trained."""

    def __init__(self, context: Context, rows: Population, epochs: int) -> None:
        options = context.options(RetrainOptions)
        train, rng = context.dataset("train"), context.rng("calibration")
        self._arithmetic = arithmetic_of(context, options.arithmetic)
        self.stop = Event()
        self._context, self._rows, self._options = context, rows, options
        self._phases = shortened(phases(options, context.recipe.network.backbone), epochs)
        self._images = TrainingImages(
            train, options.augmentation, self._arithmetic, context.recipe.run.workers
        )
        self._calibration = FixedImages.drawn(train, options.calibration_images, rng, self._arithmetic)
        held = context.dataset("reevaluation")
        self._held_out = FixedImages(held, np.arange(len(held)), EVALUATED, self._arithmetic)
        self._done, self._lock = [0] * len(rows), Lock()

    @property
    def lanes(self) -> int:
        """How many networks are trained at a time, at most."""
        return lanes(self._arithmetic, self._context.recipe.run.threads)

    @property
    def epochs(self) -> int:
        """Of each network."""
        return self._phases.epochs

    def error(self, index: int) -> float:
        """Train one network, and score it on images that nothing has seen."""
        context = self._context
        model = Fitting(
            network=context.network,
            architecture=context.space.architecture(self._rows[index]),
            initial=None,
            images=self._images,
            calibration=self._calibration,
            phases=self._phases,
            arithmetic=self._arithmetic,
            rng=partial(context.rng, _STAGE, index),
            folder=context.scratch("networks") / str(index),
            report=self._reporter(index),
            stop=self.stop,
        ).run().model  # fmt: skip
        module = Slimmable(model.network, context.rng("weights"))
        module.load_weights(model.weights)
        module.to(self._arithmetic.device)
        return score_network(module.eval(), self._held_out, self._arithmetic).error

    def _reporter(self, index: int) -> Callable[[int, str], None]:
        def report(done: int, detail: str) -> None:
            with self._lock:
                self._done[index] = done
                total = self.epochs * len(self._done)
                detail = f"network {index + 1} of {len(self._done)}, {detail}"
                self._context.progress("fidelity", "epoch", sum(self._done), total, detail)

        return report


def _compared(
    context: Context,
    rows: Population,
    estimates: NDArray[np.float64],
    errors: NDArray[np.float64],
    sampling: Sampling,
) -> dict[str, Any]:
    """The content of ``rank_fidelity.json``."""
    tau = kendall_tau(estimates, errors)
    interval = tau_interval(estimates, errors, context.rng(_STAGE, "bootstrap"))
    points = zip(rows, estimates.tolist(), errors.tolist(), strict=True)
    return {
        "format": FORMAT,
        **asdict(sampling),
        "kendall_tau": tau,
        "interval": list(interval),
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        "points": [
            {"architecture": context.space.architecture(row).to_dict(), "estimate": estimate, "error": error}
            for row, estimate, error in points
        ],
    }

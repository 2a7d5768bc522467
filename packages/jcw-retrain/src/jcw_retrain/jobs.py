"""The stage's work: choose models, train them side by side, write their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Event, Lock

import numpy as np

from jcw_core.formats.safetensors_file import SafetensorsExporter
from jcw_core.network.architecture import Architecture
from jcw_core.network.model import Model
from jcw_core.protocols import Run
from jcw_core.ranks import Ranks
from jcw_core.run.classes import classifies
from jcw_core.run.records import BASELINE, FRONT, MODELS, ChosenModel, Front
from jcw_core.space.whole import layers_of
from jcw_core.training.accelerator import arithmetic_of, lanes
from jcw_core.training.batches import EVALUATED, Batch, FixedImages, TrainingImages
from jcw_core.training.loop import Criterion
from jcw_core.training.options import Arithmetic
from jcw_core.training.precision import threads
from jcw_retrain.choosing import LATENCY, choose
from jcw_retrain.distillation import Distillation, Teacher, teacher_of
from jcw_retrain.fitting import Fitting
from jcw_retrain.initial import brings_statistics, starting_weights
from jcw_retrain.labels import require_labels
from jcw_retrain.lanes import side_by_side
from jcw_retrain.options import RetrainOptions, phases
from jcw_retrain.phase_errors import PhaseErrors, phase_errors_of
from jcw_retrain.residuals import residuals_of, write_residuals

_PROBE = 1000
"""Images at most: a hundredth of an epoch, and errors are known to a percent or two."""


@dataclass(frozen=True, slots=True)
class Job:
    """One model to train, and what is known about it already."""

    id: str
    architecture: Architecture
    requested_ms: float | None
    predicted_ms: float | None
    search_error: float | None


def retrain(context: Run) -> list[str]:
    """Train the baseline and the chosen models; write their weights and ``models/index.json``.

    All processes of the run call this.

    Returns:
        the files of weights, of ADMM's residuals and of the errors after each phase, relative to the run.
    """
    jobs, ranks = list_jobs(context), context.ranks
    models = _together(context, jobs) if _is_shared(context, jobs) else _each_alone(context, jobs)
    if ranks.is_first:
        ChosenModel.write_all(context.path(MODELS), models)
    files = ((model.weights, residuals_of(model.id), phase_errors_of(model.id)) for model in models)
    return [file for of_model in files for file in of_model]


def _is_shared(context: Run, jobs: Sequence[Job]) -> bool:
    """Whether each model is trained by all processes: where there are more of these, and a batch can be cut in parts.

    What a layer's features are compared by is a ratio of sums over a whole batch.
    """
    return len(jobs) < context.ranks.size and context.options(RetrainOptions).teacher is None


def _each_alone(context: Run, jobs: Sequence[Job]) -> list[ChosenModel]:
    """Whole models to each process, side by side in its threads."""
    ranks = context.ranks
    own = [jobs[index] for index in ranks.share(len(jobs))]
    work = Work(context, own)
    count = context.recipe.run.threads
    # Whom the others learn from is the first process's first.
    before = 1 if context.options(RetrainOptions).teacher == "baseline" and ranks.is_first else 0
    with threads(count):
        trained = [work.fit(job) for job in own[:before]]
    ranks.wait()
    if own[before:]:
        trained += side_by_side(work.fit, own[before:], count, work.stop, work.lanes)
    found = {model.id: model for part in ranks.gather(trained) for model in part}
    return [found[job.id] for job in jobs]


def _together(context: Run, jobs: Sequence[Job]) -> list[ChosenModel]:
    """One model after another, by all processes."""
    work = Work(context, jobs, context.ranks)
    with threads(context.recipe.run.threads):
        return [work.fit(job) for job in jobs]


def list_jobs(context: Run) -> list[Job]:
    """The baseline, then the models that the recipe chooses from the front, slowest first."""
    options, front = context.options(RetrainOptions), Front.read(context.path(FRONT))
    whole = context.space.architecture(context.space.maximum)
    jobs = [Job(BASELINE, whole, None, _predict(context), None)]
    choices = choose(front, options.models, options.budgets_ms)
    for number, choice in reversed(list(enumerate(choices, start=1))):
        found = choice.candidate.objectives
        jobs.append(
            Job(f"m{number}", choice.architecture, choice.requested_ms, found[LATENCY], found.get("error"))
        )
    return jobs


def _predict(context: Run) -> float | None:
    """Latency of the baseline by the objective with which the front was found."""
    if LATENCY not in context.registry.objectives:
        return None
    evaluator = context.registry.objectives[LATENCY].open(context)
    return float(evaluator.evaluate(context.space, context.space.maximum[None])[0])


class Work:
    """What the models have in common while they are trained.

    Args:
        context: the run.
        jobs: those that this process takes part in.
        ranks: the processes that train each of them together, of which the first writes it; this one alone by default.
        baseline: the job of the dense network that is trained before all others where these are to learn from it.
    """

    def __init__(
        self, context: Run, jobs: Sequence[Job], ranks: Ranks | None = None, baseline: str = BASELINE
    ) -> None:
        self.stop = Event()
        self._ranks = ranks or Ranks()
        self._context = context
        self._options = context.options(RetrainOptions)
        self._arithmetic = arithmetic_of(context, self._options.arithmetic)
        self._phases = phases(self._options, context.recipe.network.backbone)
        require_labels(context)
        data = context.dataset("rest" if self._options.hold_out else "training")
        self._images = TrainingImages(
            data, self._options.augmentation, self._arithmetic, context.recipe.run.workers
        )
        self._calibration = FixedImages.drawn(
            data, self._options.calibration_images, context.rng("calibration"), self._arithmetic
        )
        self._probe = probe_of(context, self._arithmetic)
        self._start = starting_weights(context)
        self._baseline = baseline
        self._done = {job.id: 0 for job in jobs}
        self._lock = Lock()

    @property
    def lanes(self) -> int:
        """How many models are trained at a time, at most."""
        return lanes(self._arithmetic, self._context.recipe.run.threads)

    def fit(self, job: Job) -> ChosenModel:
        """Train one model and write its weights."""
        context = self._context
        fitted = Fitting(
            network=context.network,
            architecture=job.architecture,
            initial=None if self._start is None else self._start(job.architecture),
            images=self._images,
            calibration=self._calibration,
            phases=self._phases,
            arithmetic=self._arithmetic,
            rng=partial(context.rng, "retrain", job.id),
            folder=context.scratch("retrain") / job.id,
            report=self._reporter(job),
            stop=self.stop,
            criterion=self._criterion(job),
            has_statistics=brings_statistics(context),
            ranks=self._ranks,
            probe=self._probe,
        ).run()
        name = weights_of(job.id)
        if self._ranks.is_first:
            SafetensorsExporter().export(fitted.model, context.path(name))
            write_residuals(context.path(residuals_of(job.id)), fitted.residuals)
            images = sum(len(labels) for _, labels in self._probe)
            PhaseErrors(fitted.errors, images, not self._options.hold_out).write(
                context.path(phase_errors_of(job.id))
            )
        return ChosenModel(
            id=job.id,
            architecture=job.architecture,
            requested_latency_ms=job.requested_ms,
            predicted_latency_ms=job.predicted_ms,
            search_error=job.search_error,
            kept_weights=_kept(fitted.model),
            weights=name,
        )

    @cached_property
    def _teacher(self) -> Teacher | None:
        return teacher_of(
            self._context, self._context.path(weights_of(self._baseline)), self._arithmetic.device
        )

    def _criterion(self, job: Job) -> Criterion | None:
        options = self._options
        is_teacher = options.teacher == "baseline" and job.id == self._baseline
        if is_teacher or self._teacher is None:
            return None
        return Distillation(self._teacher, job.architecture, options.distillation, options.label_smoothing)

    def _reporter(self, job: Job) -> Callable[[int, str], None]:
        def report(done: int, detail: str) -> None:
            with self._lock:
                self._done[job.id] = done
                total = self._phases.epochs * len(self._done)
                self._context.progress(
                    "retrain", "epoch", sum(self._done.values()), total, f"{job.id} {detail}"
                )

        return report


def weights_of(model: str) -> str:
    """The file of a model's trained weights, relative to the run."""
    return f"models/{model}/weights.safetensors"


def probe_of(context: Run, arithmetic: Arithmetic) -> Sequence[Batch]:
    """Images on which models are scored after each phase: some that the search has not seen; none without labels."""
    data = context.dataset("reevaluation")
    if not len(data) or not classifies(context.network, data) or (data.labels < 0).any():
        return ()
    return FixedImages(data, np.arange(min(len(data), _PROBE)), EVALUATED, arithmetic)


def _kept(model: Model) -> int:
    """Weights of convolutions and linear layers that are not zero."""
    layers = layers_of(model.network)
    return sum(int(np.count_nonzero(model.weights[f"{name}.weight"])) for name in layers)

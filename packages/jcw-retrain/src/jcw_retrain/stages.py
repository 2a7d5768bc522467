"""The stage ``retrain``. What needs torch is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from jcw_core.run.records import FRONT, MODELS, SUPERNET
from jcw_core.shown import count_of
from jcw_core.training.extra import implementation
from jcw_retrain.budgets import check_budgets, files_read
from jcw_retrain.labels import require_labels
from jcw_retrain.options import RetrainOptions, phases
from jcw_retrain.pretrained import pretrained_weights

if TYPE_CHECKING:
    from jcw_core.protocols import Run


_FEWEST = 3
"""Models that a time limit leaves."""


class RetrainStage:
    """Trains the baseline and the models chosen from the front."""

    name = "retrain"
    section = "retrain"
    options = RetrainOptions
    reads = ("run", "network", "data", "space")
    makes = (MODELS,)
    spreads = True

    def needs(self, run: Run) -> tuple[str, ...]:
        """The front, and the supernet when weights are inherited."""
        inherits = run.options(RetrainOptions).init == "supernet"
        return (FRONT, SUPERNET) if inherits else (FRONT,)

    def check_reads(self, run: Run) -> tuple[str, ...]:
        """What tells whether budgets can be met."""
        return files_read(run)

    def check(self, run: Run) -> Sequence[str]:
        """Notes on budgets.

        Raises:
            RecipeError: a budget that no network of the space meets, or nothing to learn from.
        """
        require_labels(run)
        if run.options(RetrainOptions).teacher == "dense":
            pretrained_weights(run, "teacher")
        return check_budgets(run)

    def plan(self, run: Run) -> str:
        """How many models at most, the epochs of each, and how long those take by a step of the dense network."""
        options = run.options(RetrainOptions)
        found = phases(options, run.recipe.network.backbone)
        parts = " + ".join(str(phase.epochs) for phase in (found.pretrain, found.admm, found.finetune))
        time = implementation("jcw_core.training.pace").in_words(self.seconds(run))
        models, epochs = count_of(_models(options), "model"), count_of(found.epochs, "epoch")
        return f"the baseline and at most {models}, {epochs} each: {parts}; {time} at most"

    def seconds(self, run: Run) -> float:
        """By a step of the dense network, the largest of all."""
        options = run.options(RetrainOptions)
        models, threads = _models(options), run.recipe.run.threads
        epochs = phases(options, run.recipe.network.backbone).epochs
        pace = implementation("jcw_core.training.pace")
        accelerator = implementation("jcw_core.training.accelerator")
        arithmetic = accelerator.arithmetic_of(run, options.arithmetic)
        lanes: int = min(accelerator.lanes(arithmetic, threads), models + 1)
        each: float = pace.seconds_per_image(run.network, arithmetic, threads // lanes) if epochs else 0.0
        images = len(run.dataset("rest" if options.hold_out else "training"))
        return each * images * epochs * (models + 1) / (lanes * run.ranks.size)

    def scaled(self, run: Run, share: float) -> Mapping[str, int]:
        """Fewer models, unless their budgets are given, and fewer epochs of each phase that has any."""
        options, found = (
            run.options(RetrainOptions),
            phases(run.options(RetrainOptions), run.recipe.network.backbone),
        )
        models = _models(options)
        fewer = (
            models if options.budgets_ms else min(models, max(_FEWEST, round((models + 1) * sqrt(share)) - 1))
        )
        share *= (models + 1) / (fewer + 1)
        epochs = {
            f"retrain.{name}.epochs": max(1, round(getattr(found, name).epochs * share))
            for name in ("pretrain", "admm", "finetune")
            if getattr(found, name).epochs
        }
        return epochs if options.budgets_ms else {"retrain.models": fewer, **epochs}

    def run(self, run: Run) -> Sequence[str]:
        """Train; returns the files of weights and residuals."""
        files: list[str] = implementation("jcw_retrain.jobs").retrain(run)
        return files

    def so_far(self, scratch: Path) -> str:
        """The phase of each model."""
        from jcw_retrain.so_far import so_far

        return so_far(scratch)


def _models(options: RetrainOptions) -> int:
    """At most, without the baseline."""
    return len(options.budgets_ms) or options.models

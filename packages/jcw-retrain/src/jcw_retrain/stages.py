"""The stage ``retrain``. What needs torch is imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.run.records import FRONT, MODELS, SUPERNET
from jcw_retrain.budgets import check_budgets, files_read
from jcw_retrain.labels import require_labels
from jcw_retrain.options import RetrainOptions, phases
from jcw_retrain.pretrained import pretrained_weights

if TYPE_CHECKING:
    from jcw_core.protocols import Run


class RetrainStage:
    """Trains the baseline and the models chosen from the front."""

    name = "retrain"
    section = "retrain"
    options = RetrainOptions
    reads = ("run", "network", "data", "space")
    makes = (MODELS,)

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
        if run.options(RetrainOptions).teacher is not None:
            pretrained_weights(run, "teacher")
        return check_budgets(run)

    def plan(self, run: Run) -> str:
        """How many models at most, the epochs of each, and how long those take by a step of the dense network."""
        from jcw_core.training.extra import implementation

        pace = implementation("jcw_core.training.pace")
        options = run.options(RetrainOptions)
        found = phases(options, run.recipe.network.backbone)
        parts = " + ".join(str(phase.epochs) for phase in (found.pretrain, found.admm, found.finetune))
        models = len(options.budgets_ms) or options.models
        lanes = min(run.recipe.run.threads, models + 1)
        each = pace.seconds_per_image(run.network, options.arithmetic, run.recipe.run.threads // lanes)
        images = len(run.dataset("rest" if options.hold_out else "training"))
        time = pace.in_words(each * images * found.epochs * (models + 1) / lanes)
        return (
            f"the baseline and at most {models} models, {found.epochs} epochs each: {parts}; {time} at most"
        )

    def run(self, run: Run) -> Sequence[str]:
        """Train; returns the files of weights."""
        from jcw_core.training.extra import implementation

        files: list[str] = implementation("jcw_retrain.jobs").retrain(run)
        return files

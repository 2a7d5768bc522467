"""The stage ``retrain``. What needs torch is imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.run.records import FRONT, MODELS, SUPERNET
from jcw_retrain.budgets import check_budgets, files_read
from jcw_retrain.options import RetrainOptions, phases

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
        """Notes on budgets. Raises ``RecipeError`` for one that no network of the space meets."""
        return check_budgets(run)

    def plan(self, run: Run) -> str:
        """How many models at most, and the epochs of each."""
        options = run.options(RetrainOptions)
        found = phases(options, run.recipe.network.backbone)
        parts = " + ".join(str(phase.epochs) for phase in (found.pretrain, found.admm, found.finetune))
        models = len(options.budgets_ms) or options.models
        return f"the baseline and at most {models} models, {found.epochs} epochs each: {parts}"

    def run(self, run: Run) -> Sequence[str]:
        """Train; returns the files of weights."""
        from jcw_core.training.extra import implementation

        files: list[str] = implementation("jcw_retrain.jobs").retrain(run)
        return files

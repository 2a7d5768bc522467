"""The stage ``retrain``. What needs torch is imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.run.records import FRONT, MODELS, SUPERNET
from jcw_retrain.options import RetrainOptions

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

    def run(self, run: Run) -> Sequence[str]:
        """Train; returns the files of weights."""
        from jcw_core.training.extra import implementation

        files: list[str] = implementation("jcw_retrain.jobs").retrain(run)
        return files

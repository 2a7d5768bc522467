"""The objectives ``error`` and ``loss``, estimated by the supernet. Torch is imported when they open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jcw_core.protocols import Evaluator, Run
from jcw_core.run.records import SUPERNET
from jcw_core.training.extra import implementation


@dataclass(frozen=True, slots=True)
class SupernetObjective:
    """What a sub-network scores on the validation images: a share of errors, or mean loss in nats.

    Where images are few, the loss repeats better from one sample of them to another.
    """

    name: Literal["error", "loss"]
    unit: str
    needs: tuple[str, ...] = (SUPERNET,)
    # Calibration and training between generations happen in the search.
    reads: tuple[str, ...] = ("supernet",)

    def open(self, run: Run) -> Evaluator:
        """Load the supernet and the images."""
        evaluator: Evaluator = implementation("jcw_core.supernet.evaluator").open_evaluator(run, self.name)
        return evaluator


ERROR = SupernetObjective("error", "")
LOSS = SupernetObjective("loss", "nats")

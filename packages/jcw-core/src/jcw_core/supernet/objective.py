"""The objectives ``error``, ``loss`` and ``distance``, estimated by the supernet. Torch is imported when they open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jcw_core.protocols import Evaluator, Run
from jcw_core.run.classes import require_classes
from jcw_core.run.records import SUPERNET
from jcw_core.supernet.options import DRAWN, SupernetOptions
from jcw_core.training.extra import implementation


@dataclass(frozen=True, slots=True)
class SupernetObjective:
    """What a sub-network scores on the validation images: a share of errors, or mean loss in nats.

    Where images are few, the loss repeats better from one sample of them to another. ``distance`` from the dense
    network's outputs asks no labels, and is there when that network was trained before: in nats of the classes'
    probabilities, or for maps as a share of their squares.
    """

    name: Literal["error", "loss", "distance"]
    unit: str
    needs: tuple[str, ...] = (SUPERNET,)
    # Calibration and training between generations happen in the search.
    reads: tuple[str, ...] = ("supernet",)

    def seconds(self, run: Run) -> float:
        """By a step of training: three parts, of which a network that is scored takes one."""
        options = run.options(SupernetOptions)
        pace = implementation("jcw_core.training.pace")
        accelerator = implementation("jcw_core.training.accelerator")
        arithmetic = accelerator.arithmetic_of(run, options.arithmetic)
        each: float = pace.seconds_per_image(run.network, arithmetic, 1)
        # Of a small folder statistics are taken from all that there is.
        calibration = min(options.calibration_images, len(run.dataset("train")))
        count = len(run.dataset("validation")) + calibration
        lanes: int = accelerator.lanes(arithmetic, run.recipe.run.threads)
        return DRAWN * each / 3 * count / lanes

    def open(self, run: Run) -> Evaluator:
        """Load the supernet and the images.

        Raises:
            RecipeError: a distance from a network that is not trained, or what needs labels of a network without classes.
        """
        trained = implementation("jcw_core.supernet.evaluator")
        if self.name != "distance":
            require_classes(run, "search", "objectives", f"{self.name!r}")
        if run.options(SupernetOptions).mode == "post-training":
            pruned: Evaluator = implementation("jcw_core.supernet.post_training").PostTrainingEvaluator(
                run, self.name
            )
            return pruned
        if self.name == "distance":
            raise run.recipe.where.inside("search").error(
                "objectives",
                "'distance' is from a trained network, so it needs supernet.mode = \"post-training\"",
            )
        evaluator: Evaluator = trained.open_evaluator(run, self.name)
        return evaluator


ERROR = SupernetObjective("error", "")
LOSS = SupernetObjective("loss", "nats")
DISTANCE = SupernetObjective("distance", "")

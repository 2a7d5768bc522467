"""Whether there is what models are to learn from: labels, and classes that logits are of."""

from __future__ import annotations

from jcw_core.protocols import Run
from jcw_core.run.classes import classifies, require_classes
from jcw_retrain.options import RetrainOptions, phases


def require_labels(run: Run) -> None:
    """Refuse epochs that look at labels or logits which are not there.

    Raises:
        RecipeError: the network has no classes of the data, the images no labels, or the teacher a head that is not trained.
    """
    options, network = run.options(RetrainOptions), run.recipe.network
    if not phases(options, network.backbone).epochs:
        return
    where, distillation = run.recipe.where.inside("retrain"), options.distillation
    if options.teacher is None or distillation.labels:
        require_classes(run, "retrain", "init", "training")
    if options.teacher is None or not distillation.logits:
        return
    if network.new_head and options.teacher == "dense":
        raise where.error(
            "teacher",
            "the new head of network.new_head is not trained; take 'baseline', or set distillation.logits = 0",
        )
    if not classifies(run.network, run.dataset("train")):
        raise where.error(
            "distillation",
            f"logits are of classes, and {run.network.name} has none; set logits = 0, features above 0",
        )

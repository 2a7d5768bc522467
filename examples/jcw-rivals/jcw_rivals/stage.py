"""The stage ``rival``: from a latency table and a supernet to ``rival.json``, a front by somebody else's method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from jcw_core.errors import JcwError
from jcw_core.options import option
from jcw_core.protocols import Run
from jcw_core.run import records

if TYPE_CHECKING:
    from jcw_core.training.module import Slimmable
    from jcw_rivals.setting import Shared

RIVAL = "rival.json"
"""A ``jcw_core.run.records.Front``."""

_BATCHES = 10
"""Training batches, of 128 images, over which saliencies are summed."""


@dataclass(frozen=True, slots=True)
class RivalOptions:
    """``[rival]``."""

    method: Literal["uniform", "autoslim", "halp", "fast-sparse", "dmcp", "amc"] = option(
        "uniform", help="what chooses"
    )
    budgets_ms: tuple[float, ...] = option((), above=0.0, help="latencies to stay within")
    evaluations: int = option(
        192, low=1, help="amc: episodes, and dmcp: steps, for all budgets together; others end by themselves"
    )


class RivalStage:
    """Chooses an architecture within each budget; ``jcw run RECIPE --until rival``."""

    name = "rival"
    section = "rival"
    options = RivalOptions
    reads = ("run", "network", "data", "space", "supernet")
    makes = (RIVAL,)

    def needs(self, run: Run) -> tuple[str, ...]:
        """What estimates latency and error."""
        return (records.TABLE, records.SUPERNET)

    def run(self, run: Run) -> Sequence[str]:
        """Choose, and write the front.

        Raises:
            RecipeError: no budgets.
            JcwError: a budget within which the method has no network.
        """
        from jcw_rivals import RIVALS, Setting

        asked, where = run.options(RivalOptions), run.recipe.where.inside("rival")
        if not asked.budgets_ms:
            raise where.error("budgets_ms", "give the latencies to stay within, in milliseconds")
        latency, error = (run.registry.objectives[name].open(run) for name in ("latency", "error"))
        setting = Setting(
            run.space,
            lambda rows: latency.evaluate(run.space, rows),
            lambda rows: error.evaluate(run.space, rows),
            lambda: _saliencies(run),
            lambda: _shared(run),
            asked.evaluations,
            int(run.rng("rival", "choice").integers(2**31)),
        )
        budgets = sorted(asked.budgets_ms)
        rows = RIVALS[asked.method].choose(setting, budgets)
        for budget, row in zip(budgets, rows, strict=True):
            if row is None:
                raise JcwError(
                    f"rival.budgets_ms: {asked.method} has no network within {budget:g} ms; ask for more"
                )
        found = np.unique(np.stack([row for row in rows if row is not None]), axis=0)
        values = sorted(zip(setting.latency_ms(found), setting.error(found), found, strict=True), key=_first)
        candidates = [
            records.Candidate(run.space.architecture(row), {"latency": float(ms), "error": float(wrong)})
            for ms, wrong, row in values
        ]
        units = {name: run.registry.objectives[name].unit for name in ("latency", "error")}
        search = {"strategy": asked.method, "source": RIVALS[asked.method].source}
        records.Front(run.network.name, units, candidates, search).write(run.path(RIVAL))
        return ()


def _first(values: tuple[float, float, object]) -> float:
    return float(values[0])


def _saliencies(run: Run) -> Mapping[str, np.ndarray]:
    """Of the supernet's channels, on training images."""
    from jcw_core.supernet.calibration import recalibrate
    from jcw_core.supernet.options import SupernetOptions
    from jcw_core.training.batches import EVALUATED, FixedImages
    from jcw_rivals.saliency import saliencies

    module = _supernet(run)
    arithmetic = run.options(SupernetOptions).arithmetic
    images = FixedImages.drawn(run.dataset("train"), _BATCHES * EVALUATED, run.rng("rival"), arithmetic)
    recalibrate(module, (batch for batch, _ in images))
    return saliencies(module, images)


def _shared(run: Run) -> Shared:
    """The supernet, and the images that it was trained on."""
    from jcw_core.supernet.options import SupernetOptions
    from jcw_core.training.batches import TrainingImages
    from jcw_rivals.setting import Shared, endless

    options = run.options(SupernetOptions)
    images = TrainingImages(
        run.dataset("train"), options.augmentation, options.arithmetic, run.recipe.run.workers
    )
    return Shared(_supernet(run), endless(images, options.batch_size, run.rng("rival", "batches")))


def _supernet(run: Run) -> Slimmable:
    from jcw_core.supernet.sharing import load_supernet
    from jcw_core.training.module import Slimmable

    module = Slimmable(run.network, run.rng("rival"))
    load_supernet(run, module)
    return module

"""The stage that trains the supernet. Torch is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jcw_core.errors import PluginError
from jcw_core.run.records import SUPERNET
from jcw_core.shown import count_of
from jcw_core.supernet.options import DRAWN, RANDOM_OF_SANDWICH, VARIANT, SupernetOptions, has_variant
from jcw_core.training.extra import implementation, require

if TYPE_CHECKING:
    from jcw_core.protocols import Run
    from jcw_core.training.options import Arithmetic


class SupernetStage:
    """Trains the shared weights on random architectures."""

    name = "supernet"
    section = "supernet"
    options = SupernetOptions
    reads = ("run", "network", "data", "space")
    makes = (SUPERNET,)
    spreads = True

    def needs(self, run: Run) -> tuple[str, ...]:
        """It needs no other stage, but torch and what the recipe names: better said before a run begins than in its middle."""
        require()
        if run.recipe.run.accelerator == "cuda":
            _arithmetic(run)
        options = run.options(SupernetOptions)
        try:
            if options.orders_channels:
                _ = run.registry.importances[options.importance]
        except PluginError as error:
            raise run.recipe.where.inside("supernet").error("importance", str(error)) from None
        return ()

    def plugins_read(self, run: Run) -> tuple[str, ...]:
        """The search's variant, which says what is drawn: other keys of its table train nothing anew."""
        return (VARIANT,) if has_variant(run.recipe) else ()

    def plan(self, run: Run) -> str:
        """Its epochs, and how long they take by a step of the whole network, the slowest of all."""
        options, images = run.options(SupernetOptions), len(run.dataset("train"))
        if options.mode == "post-training":
            return f"no training; statistics of {min(images, options.calibration_images)} images"
        longest = _whole(run) * (1 if options.draws == "plain" else 3)
        time = implementation("jcw_core.training.pace").in_words(longest)
        return f"{count_of(options.shared_epochs, 'epoch')} of {images} images, {time} at most"

    def seconds(self, run: Run) -> float:
        """As ``plan`` has it, but for the sub-networks that are drawn, which are smaller than the whole."""
        options = run.options(SupernetOptions)
        if not options.shared_epochs:
            return 0.0
        return _whole(run) * (DRAWN if options.draws == "plain" else 1 + (RANDOM_OF_SANDWICH + 0.5) * DRAWN)

    def scaled(self, run: Run, share: float) -> Mapping[str, int]:
        """Fewer epochs."""
        options = run.options(SupernetOptions)
        if not options.shared_epochs:
            return {}
        key = "epochs" if options.mode == "continuous" else "warmup_epochs"
        found = {f"supernet.{key}": max(1, round(options.shared_epochs * share))}
        if options.mode == "per-generation":
            more = options.epochs - options.shared_epochs
            found["supernet.epochs"] = found["supernet.warmup_epochs"] + max(bool(more), round(more * share))
        if options.channel_epochs:
            found["supernet.channel_epochs"] = round(options.channel_epochs * share)
        return found

    def run(self, run: Run) -> Sequence[str]:
        """Train, or collect what pruning after training needs, and write ``supernet.safetensors``."""
        sharing = implementation("jcw_core.supernet.sharing")
        if run.options(SupernetOptions).mode != "post-training":
            sharing.train_supernet(run)
        elif run.ranks.is_first:
            implementation("jcw_core.supernet.post_training").build_database(run)
        return ()


def _whole(run: Run) -> float:
    """Seconds of all epochs, if each step trained the whole network once."""
    options = run.options(SupernetOptions)
    pace = implementation("jcw_core.training.pace")
    each: float = pace.seconds_per_image(run.network, _arithmetic(run), run.recipe.run.threads)
    return each * options.shared_epochs * len(run.dataset("train")) / run.ranks.size


def _arithmetic(run: Run) -> Arithmetic:
    """How the supernet computes; a ``RecipeError`` where that is on a GPU and there is none."""
    asked = run.options(SupernetOptions).arithmetic
    found: Arithmetic = implementation("jcw_core.training.accelerator").arithmetic_of(run, asked)
    return found

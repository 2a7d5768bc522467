r"""Other people's methods on the tables, images and trainings of ``ablation.py``, and beside its joint search.

    pip install ./examples/jcw-rivals
    python benchmarks/rivals.py --data cifar10.zip --work runs/ablation --out docs/results/rivals.json \
        --ablation docs/results/ablation.json

Each method chooses a model within each budget; all are trained as long, on the same images in the same order. As
for ``ablation.py``, whose latency table and supernets it takes, it goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ablation_models import Models
from ablation_rows import Rows, locked
from ablation_search import model_of
from ablation_settings import FULL, settings_of
from ablation_supernet import Estimator, supernet
from ablation_training import trained
from ablation_world import World, rng_of
from harness import Row, machine, versions, write
from jcw_rivals import RIVALS, Setting, Shared, endless
from jcw_rivals.saliency import saliencies
from pieces import Piece, command_line_of_pieces, parsed, work
from rivals_figure import draw, summary
from rivals_training import TRAINERS

from jcw_core.supernet.calibration import recalibrate
from jcw_core.training.precision import threads
from jcw_kernels import chosen_isa

CHOSEN_BY = {**{name: name for name in RIVALS}, "usnet": "uniform"}
"""By name of a row, the rival whose architectures it has; USNet differs from uniform widths in how it is trained."""


class Comparison:
    """All pieces: a choice, and the training of what was chosen.

    Args:
        args: the command line's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        settings = settings_of(args.networks, args.quick)
        tables = [args.ablation.with_name(f"{args.ablation.stem}-{one.network}.npz") for one in settings]
        worlds = [
            World(one, args.data, args.work, table) for one, table in zip(settings, tables, strict=True)
        ]
        # A network waits for its table, which the other program makes.
        self._worlds = [world for world in worlds if world.table_path.is_file()]
        self._seeds, self._work, self._out = args.seeds, args.work, args.out
        self.head = {
            "machine": machine(isa=chosen_isa("")),
            "versions": versions("jcw-core", "jcw-latency", "jcw-kernels", "jcw-retrain", "torch"),
        }

    @property
    def rows(self) -> Rows:
        """The results file."""
        return Rows(self._out, self._work, self.head, {w.settings.network: w.inputs for w in self._worlds})

    def pieces(self) -> Iterator[Piece]:
        """Network by network and seed by seed, those that choose fast first."""
        for world in self._worlds:
            for seed in range(self._seeds):
                for method in ("uniform", "usnet", "fast-sparse", "halp", "dmcp", "amc", "autoslim"):
                    yield from self._of(world, seed, method)

    def _of(self, world: World, seed: int, method: str) -> Iterator[Piece]:
        key: Row = {"kind": "rival", "network": world.settings.network, "variant": method, "seed": seed}
        yield Piece(
            "-".join(map(str, key.values())),
            lambda: self.rows.find(**key) is None,
            lambda: self.rows.put(key | chosen(world, seed, method)),
        )
        train = partial(TRAINERS.get(method, trained), world, seed)
        yield from Models(self.rows, self._work).pieces(key, train)


def chosen(world: World, seed: int, method: str) -> Row:
    """What a method would have trained, and the processor's seconds that the choice took."""
    rival = RIVALS[CHOSEN_BY[method]]
    estimator: list[Estimator] = []

    def estimated() -> Estimator:
        if not estimator:
            estimator.append(Estimator.of(world, supernet(world, seed), seed))
        return estimator[0]

    setting = Setting(
        world.space,
        world.latency_ms,
        lambda rows: estimated().evaluate(world.space, rows),
        lambda: saliencies_of(world, seed),
        lambda: shared_of(world, seed),
        world.settings.evaluations,
        seed,
    )
    began = time.process_time()
    rows = rival.choose(setting, world.budgets_ms)
    spent = time.process_time() - began
    found = [
        model_of(world, row, budget)
        for row, budget in zip(rows, world.budgets_ms, strict=True)
        if row is not None
    ]
    return {
        "dataset": "cifar10", "source": rival.source if method != "usnet" else USNET, "training": method,
        "seconds": max([spent, *(one.seconds for one in estimator)]), "models": found,
    }  # fmt: skip


USNET = "Yu and Huang 2019, Universally Slimmable Networks and Improved Training Techniques"


def saliencies_of(world: World, seed: int) -> Row:
    """Of the supernet's channels, on the images that calibrate it."""
    module = supernet(world, seed)
    images = world.images.calibration(1280)
    recalibrate(module, (batch for batch, _ in images))
    return dict(saliencies(module, images))


def shared_of(world: World, seed: int) -> Shared:
    """The supernet, and batches as large as those that it was trained on."""
    batch_size, rng = world.settings.supernet.batch_size, rng_of("rival", seed)
    return Shared(supernet(world, seed), endless(world.images.training, batch_size, rng))


def main() -> None:
    """Parse the command line, do what there is time for, and show what there is."""
    parser = command_line_of_pieces(__doc__, list(FULL), seeds=1)
    parser.add_argument("--ablation", type=Path, required=True, help="what ablation.py has written")
    args = parsed(parser)
    comparison = Comparison(args)
    with threads(1):
        failed = work(comparison.pieces, args.work / "locks", args.minutes)
    rows = comparison.rows.read()
    ours = json.loads(args.ablation.read_text(encoding="utf-8"))["rows"] if args.ablation.is_file() else []
    print(summary(rows, ours))
    if rows:
        with locked(args.work, "rows"):
            write(args.out, {**comparison.head, "rows": rows}, draw(rows, ours))
    if failed:
        sys.exit("\n".join(f"error: {reason}" for reason in failed))


if __name__ == "__main__":
    main()

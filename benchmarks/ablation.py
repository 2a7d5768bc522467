"""The paper's comparisons on CIFAR-10: joint, channels, weights and sequential searches, and what they are made of.

    python benchmarks/ablation.py --data cifar10.zip --work runs/ablation --out docs/results/ablation.json

It is made of pieces of less than an hour: latency tables, supernets, searches, one training for each model. Each
ends with a row in the results file, and the same command goes on where it stopped; a second process beside the
first takes other pieces. Only the results files need to be kept: a supernet that was lost is trained again. Rows
hold for the settings in ``ablation_settings.py`` and for the latency table; when these change they are made anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from ablation_figure import draw, summary
from ablation_models import Models
from ablation_rows import Rows, locked
from ablation_search import OTHERS, SPREADS, VARIANTS, Search, fidelity_sample, model_of, searched
from ablation_settings import FULL, Settings, settings_of
from ablation_supernet import supernet
from ablation_training import layer_latencies, trained
from ablation_world import World
from harness import Row, machine, versions, write
from pieces import Piece, command_line_of_pieces, parsed, work

from jcw_core.training.precision import threads
from jcw_kernels import chosen_isa


class Ablation:
    """All pieces of all networks and seeds.

    Args:
        args: the command line's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        settings = settings_of(args.networks, args.quick)
        self._quick = args.quick
        self._seeds = 1 if args.quick else args.seeds
        self.worlds = [self._world(args, one) for one in settings]
        self._work = args.work
        self.head = {
            "machine": machine(isa=chosen_isa("")),
            "versions": versions(
                "jcw-core", "jcw-latency", "jcw-kernels", "jcw-search", "jcw-retrain", "torch"
            ),
            "settings": {one.network: asdict(one) for one in settings_of(list(FULL), args.quick)},
        }
        self._out = args.out

    @staticmethod
    def _world(args: argparse.Namespace, settings: Settings) -> World:
        table = args.out.with_name(f"{args.out.stem}-{settings.network}.npz")
        return World(settings, args.data, args.work, table)

    @property
    def rows(self) -> Rows:
        """The results file."""
        inputs = {w.settings.network: w.inputs if w.table_path.is_file() else "" for w in self.worlds}
        return Rows(self._out, self._work, self.head, inputs)

    def pieces(self) -> Iterator[Piece]:
        """In the order of their weight for the paper's claims: the four variants, what is trained of them, all else."""
        for world in self.worlds:
            name = world.settings.network
            yield Piece(f"{name}-table", partial(self._no_table, world), partial(world.profile, self._quick))
            yield self._row_of(world, "layers", partial(layer_latencies, world))
        for world in self.worlds:
            seeds = range(self._seeds)
            for seed in seeds:
                yield self._supernet(world, seed)
                yield self._row_of(world, "dense", partial(self._dense, world), seed)
                yield from (self._search(world, seed, search) for search in VARIANTS)
            for seed in seeds:
                yield from self._variant_trainings(world, seed)
            for seed in seeds:
                yield from (self._search(world, seed, search) for search in (*SPREADS, *OTHERS))
            yield from self._more_of_one_seed(world)

    def _supernet(self, world: World, seed: int) -> Piece:
        path = self._shared(world, seed)

        def made() -> None:
            supernet(world, seed)
            path.touch()

        def missing() -> bool:
            return not path.is_file() and any(piece.missing() for piece in self._reading(world, seed))

        return Piece(f"{world.settings.network}-{seed}-supernet", missing, made)

    @staticmethod
    def _shared(world: World, seed: int) -> Path:
        """Is there when the shared weights are."""
        return world.folder(seed) / f"supernet-{world.settings.supernet.epochs}.done"

    def _reading(self, world: World, seed: int) -> Iterator[Piece]:
        """All that needs the shared weights."""
        yield from (self._search(world, seed, search) for search in (*VARIANTS, *SPREADS, *OTHERS))
        yield from self._variant_trainings(world, seed)
        if seed == 0:
            yield from self._more_of_one_seed(world)

    def _variant_trainings(self, world: World, seed: int) -> Iterator[Piece]:
        yield from self._trainings(world, seed, "dense", Search("dense", ""))
        for search in VARIANTS:
            yield from self._trainings(world, seed, "search", search)

    def _more_of_one_seed(self, world: World) -> Iterator[Piece]:
        """Further seeds of these would take as long as all others together."""
        fidelity = self._row_of(world, "fidelity", partial(fidelity_sample, world, 0), 0)
        yield replace(fidelity, ready=partial(self._can_search, world, 0))
        yield from self._trainings(world, 0, "fidelity", None)
        for search in OTHERS:
            yield from self._trainings(world, 0, "search", search)

    def _trainings(self, world: World, seed: int, kind: str, search: Search | None) -> Iterator[Piece]:
        for piece in self._models(world, seed, kind, search):
            yield replace(piece, ready=self._shared(world, seed).is_file)

    def _search(self, world: World, seed: int, wanted: Search) -> Piece:
        key = {"kind": "search", "network": world.settings.network, "seed": seed, **_key(wanted)}
        return Piece(
            f"{world.settings.network}-{seed}-{wanted.variant}-{wanted.selection}-{wanted.schedule}",
            lambda: self.rows.find(**key) is None,
            lambda: self.rows.put(searched(world, seed, wanted)),
            partial(self._can_search, world, seed),
        )

    def _can_search(self, world: World, seed: int) -> bool:
        return self._has_table(world) and self._shared(world, seed).is_file()

    def _row_of(self, world: World, kind: str, make: Callable[[], Row], seed: int = 0) -> Piece:
        key = {"kind": kind, "network": world.settings.network, "seed": seed}
        key |= {"variant": "dense"} if kind == "dense" else {}
        return Piece(
            f"{world.settings.network}-{seed}-{kind}",
            lambda: self.rows.find(**key) is None,
            lambda: self.rows.put(make() | key),
            partial(self._has_table, world),
        )

    def _models(self, world: World, seed: int, kind: str, search: Search | None) -> Iterator[Piece]:
        """A piece for each model of a row, as far as the row is there."""
        key = {"kind": kind, "network": world.settings.network, "seed": seed}
        if search is not None:
            key |= {"variant": "dense"} if kind == "dense" else _key(search)
        done = "error" if kind == "fidelity" else "test_error"
        train = partial(trained, world, seed, alone=kind == "fidelity")
        return Models(self.rows, self._work).pieces(key, train, done)

    @staticmethod
    def _dense(world: World) -> Row:
        return {"dataset": "cifar10", "models": [model_of(world, world.space.maximum, None)]}

    @staticmethod
    def _no_table(world: World) -> bool:
        return not world.table_path.is_file()

    @staticmethod
    def _has_table(world: World) -> bool:
        return world.table_path.is_file()


def _key(search: Search) -> Row:
    return {"variant": search.variant, "selection": search.selection, "schedule": search.schedule}


def main() -> None:
    """Parse the command line, do what there is time for, and show what there is."""
    args = parsed(command_line_of_pieces(__doc__, list(FULL), seeds=3))
    ablation = Ablation(args)
    with threads(1):
        failed = work(ablation.pieces, args.work / "locks", args.minutes)
    rows = ablation.rows.read()
    print(summary(rows))
    if rows:
        with locked(args.work, "rows"):
            write(args.out, {**ablation.head, "rows": rows}, draw(rows))
    if failed:
        sys.exit("\n".join(f"error: {reason}" for reason in failed))


if __name__ == "__main__":
    main()

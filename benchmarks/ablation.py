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
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from ablation_figure import draw, summary
from ablation_rows import Held, Rows, locked
from ablation_search import OTHERS, SPREADS, VARIANTS, Search, fidelity_sample, model_of, searched
from ablation_settings import FULL, Settings, settings_of
from ablation_supernet import supernet
from ablation_training import layer_latencies, trained
from ablation_world import World
from harness import Row, command_line, machine, versions, write

from jcw_core.errors import JcwError


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work.

    Args:
        name: of its lock.
        missing: True while it has to be done.
        ready: True when what it needs is there.
        run: does it, and puts its row.
    """

    name: str
    missing: Callable[[], bool]
    ready: Callable[[], bool]
    run: Callable[[], object]


class Ablation:
    """All pieces of all networks and seeds.

    Args:
        args: the command line's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        settings = settings_of(args.networks, args.quick)
        self._seeds = 1 if args.quick else args.seeds
        self.worlds = [self._world(args, one) for one in settings]
        self._work = args.work
        self._head = {
            "machine": machine(),
            "versions": versions(
                "jcw-core", "jcw-latency", "jcw-kernels", "jcw-search", "jcw-retrain", "torch"
            ),
            "settings": {one.network: asdict(one) for one in settings},
        }
        self._out = args.out

    @staticmethod
    def _world(args: argparse.Namespace, settings: Settings) -> World:
        table = args.out.with_name(f"{args.out.stem}-{settings.network}.npz")
        return World(settings, args.data, args.work, table)

    @property
    def rows(self) -> Rows:
        """The results file."""
        inputs = {world.settings.network: world.inputs for world in self.worlds if world.table_path.is_file()}
        return Rows(self._out, self._work, self._head, inputs)

    def pieces(self) -> Iterator[Piece]:
        """In the order of their weight for the paper's claims: a network and a seed after the other."""
        for world in self.worlds:
            name = world.settings.network
            yield Piece(f"{name}-table", partial(self._no_table, world), _always, world.profile)
            yield self._row_of(world, "layers", partial(layer_latencies, world))
        for world in self.worlds:
            for seed in range(self._seeds):
                yield from self._of_seed(world, seed)

    def _of_seed(self, world: World, seed: int) -> Iterator[Piece]:
        path = world.folder(seed) / f"supernet-{world.settings.supernet.epochs}.done"
        needed = [self._search(world, seed, one) for one in (*VARIANTS, *SPREADS, *OTHERS)]
        needed.append(self._row_of(world, "fidelity", partial(fidelity_sample, world, seed), seed))

        def made() -> None:
            supernet(world, seed)
            path.touch()

        yield Piece(
            f"{world.settings.network}-{seed}-supernet",
            lambda: not path.is_file() and any(piece.missing() for piece in needed),
            partial(self._has_table, world),
            made,
        )
        yield self._row_of(world, "dense", partial(self._dense, world), seed)
        variants, rest = needed[: len(VARIANTS)], needed[len(VARIANTS) :]
        yield from variants
        yield from self._models(world, seed, "dense", Search("dense", ""))
        for search in VARIANTS:
            yield from self._models(world, seed, "search", search)
        yield from rest
        yield from self._models(world, seed, "fidelity", None)
        for search in OTHERS:
            yield from self._models(world, seed, "search", search)

    def _search(self, world: World, seed: int, wanted: Search) -> Piece:
        key = {"kind": "search", "network": world.settings.network, "seed": seed, **_key(wanted)}
        return Piece(
            f"{world.settings.network}-{seed}-{wanted.variant}-{wanted.selection}-{wanted.schedule}",
            lambda: self.rows.find(**key) is None,
            partial(self._has_table, world),
            lambda: self.rows.put(searched(world, seed, wanted)),
        )

    def _row_of(self, world: World, kind: str, make: Callable[[], Row], seed: int = 0) -> Piece:
        key = {"kind": kind, "network": world.settings.network, "seed": seed}
        key |= {"variant": "dense"} if kind == "dense" else {}
        return Piece(
            f"{world.settings.network}-{seed}-{kind}",
            lambda: self.rows.find(**key) is None,
            partial(self._has_table, world),
            lambda: self.rows.put(make() | key),
        )

    def _models(self, world: World, seed: int, kind: str, search: Search | None) -> Iterator[Piece]:
        """A piece for each model of a row that is not trained yet, as far as the row is there."""
        key = {"kind": kind, "network": world.settings.network, "seed": seed}
        if search is not None:
            key |= {"variant": "dense"} if kind == "dense" else _key(search)
        row = self.rows.find(**key) if self._has_table(world) else None
        for index, model in enumerate(row["models"] if row else ()):
            name = "-".join(str(part) for part in (*key.values(), index))
            done = "error" if kind == "fidelity" else "test_error"
            yield Piece(
                name,
                lambda model=model, done=done: done not in model,  # type: ignore[misc]
                _always,
                partial(self._train, world, seed, key, index, name),
            )

    def _train(self, world: World, seed: int, key: Row, index: int, name: str) -> None:
        row = self.rows.find(**key)
        assert row is not None
        model = self._twin(row["models"][index], row) if key["kind"] != "fidelity" else None
        model = model or trained(world, seed, name, row["models"][index], key["kind"] != "fidelity")
        # Read again, as another process may have trained another model of the row.
        with locked(self._work, "models"):
            row = self.rows.find(**key)
            assert row is not None
            row["models"][index] = model
            row["test_error"] = {
                f"{model['requested_ms']:.4g}": model["test_error"]
                for model in row["models"]
                if model["requested_ms"] is not None and "test_error" in model
            }
            self.rows.put(row)

    def _twin(self, model: Row, row: Row) -> Row | None:
        """The same model if it is trained for another row or budget: it would come out the same again."""
        others = [r for r in self.rows.read() if (r["network"], r["seed"]) == (row["network"], row["seed"])]
        for other in (one for found in others for one in found.get("models", ())):
            if other["architecture"] == model["architecture"] and "test_error" in other:
                known = ("test_error", "training_seconds", "measured_ms", "dense_measured_ms")
                return model | {name: other[name] for name in known}
        return None

    @staticmethod
    def _dense(world: World) -> Row:
        return {"dataset": "cifar10", "models": [model_of(world, world.space.maximum, None)]}

    @staticmethod
    def _no_table(world: World) -> bool:
        return not world.table_path.is_file()

    @staticmethod
    def _has_table(world: World) -> bool:
        return world.table_path.is_file()


def _always() -> bool:
    return True


def _key(search: Search) -> Row:
    return {"variant": search.variant, "selection": search.selection, "schedule": search.schedule}


def work(ablation: Ablation, locks: Path, minutes: float) -> None:
    """Do pieces until none is left, none can be done, or the time is up, when no piece is begun any more."""
    began, busy = time.monotonic(), True
    while busy:
        busy = False
        for piece in ablation.pieces():
            if time.monotonic() - began > 60 * minutes:
                return
            if not piece.missing() or not piece.ready():
                continue
            try:
                with locked(locks, piece.name, wait=False):
                    # It may have been done since it was looked at.
                    if piece.missing():
                        print(f"{piece.name} begins", flush=True)
                        piece.run()
                        busy = True
            except Held:
                continue
            if busy:
                break


def main() -> None:
    """Parse the command line, do what there is time for, and show what there is."""
    parser = command_line(__doc__, quick="tiny networks and trainings, to see that everything works")
    parser.add_argument(
        "--data", type=Path, required=True, help="CIFAR-10: a .zip or folder, split/class/file"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints, which may be lost")
    parser.add_argument("--networks", nargs="+", choices=list(FULL), default=list(FULL))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no piece after so many minutes")
    args = parser.parse_args()
    if args.out is None:
        parser.error("--out is missing: rows go there as they come")
    torch.set_num_threads(1)
    ablation = Ablation(args)
    try:
        work(ablation, args.work / "locks", args.minutes)
    except JcwError as error:
        sys.exit(f"error: {error}")
    rows = ablation.rows.read()
    print(summary(rows))
    if rows:
        with locked(args.work, "rows"):
            write(args.out, {**ablation._head, "rows": rows}, draw(rows))


if __name__ == "__main__":
    main()

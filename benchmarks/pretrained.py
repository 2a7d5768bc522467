"""Trained networks as a recipe prunes them: what its search found, beside uniform pruning to the same latency.

All models come from one database of pruning after training and one schedule, and the engine scores the files that it
times: the network whole, what the search found, and for each of these the widest network that is as fast when all
channels, all weights, or both are cut by one share, within the bounds of the recipe. A file is scored before and after
the recipe's training. In the end all files are timed in turn, in one process; with ``--int8`` also those of the same
models whose convolutions compute with int8.

    python benchmarks/pretrained.py examples/mobilenet_v2_imagenet.toml --out docs/results/mobilenet_v2_imagenet_pretrained.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, command_line, machine, subplots, system, versions, write
from numpy.typing import NDArray
from resumable import forget, rows_of

from jcw_core.datasets.split import normalise
from jcw_core.errors import JcwError
from jcw_core.formats.safetensors_file import load_model
from jcw_core.network.architecture import Architecture
from jcw_core.network.model import Model
from jcw_core.network.shrink import shrink
from jcw_core.options import assignment
from jcw_core.recipe.recipe import canonical, load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run as run_stages
from jcw_core.run.records import FRONT, Front
from jcw_core.space.space import Population
from jcw_core.supernet.options import SupernetOptions
from jcw_core.supernet.post_training import pruned_weights
from jcw_kernels import Program, calibrate, chosen_isa, compile_model, load
from jcw_kernels.host import HostDevice, HostOptions
from jcw_kernels.stages import error_rate
from jcw_retrain.choosing import choose
from jcw_retrain.jobs import Job, Work
from jcw_retrain.options import RetrainOptions

UNIFORM = ("uniform_width", "uniform_density", "uniform_both")
QUICK = {
    "latency.min_rounds": 1,
    "latency.rounds": 1,
    "latency.whole_networks": 0,
    "latency.check_networks": 0,
    "search.population": 4,
    "search.generations": 1,
    "retrain.models": 2,
}
"""Keys of the recipe that ``--quick`` replaces."""
_PLACES = ("data.path", "network.weights", "network.module")
"""Keys that say where things lie, which is nobody else's concern."""
_CALIBRATION = 128
"""Training images by which int8 models choose their numbers."""
_LEVELS = 400
"""Shares that a uniform network is chosen from."""


class Models:
    """The models of a recipe, and what each scores.

    Args:
        context: a run whose search has ended.
        int8: have them in this precision as well.
    """

    def __init__(self, context: Context, int8: bool) -> None:
        self._context, self._int8 = context, int8
        self._latency = context.registry.objectives["latency"].open(context)

    def settings(self) -> Iterator[Row]:
        """The whole network, then the models of the front, slowest first, each with uniform ones as fast."""
        options, space = self._context.options(RetrainOptions), self._context.space
        yield self._setting("dense", space.maximum)
        front = Front.read(self._context.path(FRONT))
        for choice in reversed(choose(front, options.models, options.budgets_ms)):
            row = space.row(choice.architecture)
            yield self._setting("joint", row)
            for method in UNIFORM:
                yield self._setting(method, self._uniform(method, self._predicted(row[None])[0]))

    def _setting(self, method: str, row: np.ndarray) -> Row:
        architecture = self._context.space.architecture(row).to_dict()
        # How many models there are changes none of them.
        trained = canonical(replace(self._context.options(RetrainOptions), models=1))
        key = hashlib.sha256(json.dumps([architecture, trained], sort_keys=True).encode()).hexdigest()
        return {
            "method": method,
            "model": f"{method}-{key[:10]}",
            "architecture": architecture,
            "predicted_latency_ms": float(self._predicted(row[None])[0]),
            **({"int8": True} if self._int8 else {}),
        }

    def _predicted(self, population: Population) -> np.ndarray:
        found: np.ndarray = self._latency.evaluate(self._context.space, population)
        return found

    def _uniform(self, method: str, latency_ms: float) -> np.ndarray:
        """The largest network of one share that takes no longer, the smallest where all do."""
        space = self._context.space
        share = np.linspace(0, 1, _LEVELS)[:, None]
        cut = {"uniform_width": space.is_width, "uniform_density": ~space.is_width}.get(method, True)
        rows = space.decode(np.where(cut, share, 1.0) * np.ones(space.dimensions))
        fast = np.flatnonzero(self._predicted(rows) <= latency_ms)
        row: np.ndarray = rows[fast[-1] if len(fast) else 0]
        return row

    @cached_property
    def _work(self) -> Work:
        dense = self._setting("dense", self._context.space.maximum)
        return Work(self._context, [], baseline=dense["model"])

    def measured(self, setting: Row) -> Row:
        """Accuracy before and after the recipe's training, and what both took."""
        began = time.perf_counter()
        architecture = Architecture.from_dict(setting["architecture"])
        one_shot = None
        if self._context.options(SupernetOptions).mode == "post-training":
            network = shrink(self._context.network, architecture)
            weights = pruned_weights(self._context, architecture)
            one_shot = self._top1(compile_model(Model(network, weights, architecture)))
        job = Job(setting["model"], architecture, None, setting["predicted_latency_ms"], None)
        model = load_model(self._context.path(self._work.fit(job).weights))
        file = self.file(setting)
        top1 = self._top1(compile_model(model), file)
        int8 = (
            {"int8_top1": self._top1(self._rounded(model), self.file(setting, "-int8"))} if self._int8 else {}
        )
        shutil.rmtree(self._context.scratch("retrain") / job.id, ignore_errors=True)
        return {
            "top1_one_shot": one_shot,
            "top1": top1,
            **int8,
            "file_bytes": file.stat().st_size,
            "seconds": time.perf_counter() - began,
        }

    def file(self, setting: Row, suffix: str = "") -> Path:
        """The model's file."""
        return self._context.path(f"models/{setting['model']}/model{suffix}.jcw")

    @cached_property
    def _calibration(self) -> NDArray[np.float32]:
        data = self._context.dataset("train")
        drawn = np.random.default_rng(0).permutation(len(data))[:_CALIBRATION]
        return normalise(data.images(np.sort(drawn)), data)

    def _rounded(self, model: Model) -> Program:
        """The model with int8 convolutions."""
        return compile_model(model, quantization=calibrate(model, self._calibration))

    def _top1(self, program: Program, keep: Path | None = None) -> float:
        """Share of the test images that the engine classifies rightly, by the file if there is to be one."""
        if keep is not None:
            program.save(keep)
            program = load(keep)
        return 1 - error_rate(program, self._context.dataset("test"))


def opened(args: argparse.Namespace) -> Context:
    """The recipe's run, in ``--runs``."""
    registry, overrides = Registry(), dict(assignment(text, "--set", "TABLE.KEY") for text in args.set)
    recipe = load_recipe(args.recipe, registry, overrides | (QUICK if args.quick else {}))
    return Context(recipe, registry, RunDirectory(args.runs / args.recipe.stem))


def run(args: argparse.Namespace) -> tuple[list[Row], int]:
    """Rows of the models that were made within ``--minutes``, and how many there are to be."""
    began, context = time.monotonic(), opened(args)
    run_stages(context, "search", lambda event: print(event.stage, event.state, event.note, flush=True))
    models = Models(context, args.int8)
    # A front ends with the whole network, and near it uniform ones are the whole network, too: each is made once.
    settings: list[Row] = []
    for row in models.settings():
        if row["architecture"] not in [other["architecture"] for other in settings]:
            settings.append(row)
    found: list[Row] = []
    for row in rows_of(settings, models.measured, args.out):
        print({key: value for key, value in row.items() if key != "architecture"}, flush=True)
        found.append(row)
        if time.monotonic() - began > 60 * args.minutes:
            break
    files = [models.file(row, suffix) for suffix in ("", "-int8")[: 1 + args.int8] for row in found]
    return timed(context, found, files, 3 if args.quick else args.rounds), len(settings)


def timed(context: Context, rows: Sequence[Row], files: Sequence[Path], rounds: int) -> list[Row]:
    """What rows tell of their files, which are timed in turns, and again as on a processor without AVX-512.

    Args:
        files: of all rows; then, where there are as many again, those in int8.
    """
    keys = ("method", "predicted_latency_ms", "top1_one_shot", "top1", "int8_top1", "file_bytes", "seconds")
    low, middle, high = np.quantile(
        1e3 * context.open_device().measure_models(files, rounds=rounds), [0.25, 0.5, 0.75], axis=0
    ).tolist()
    found = [
        {key: row[key] for key in keys if key in row}
        | {"measured_latency_ms": middle[i], "latency_quartiles_ms": [low[i], high[i]]}
        for i, row in enumerate(rows)
    ]
    for row, taken in zip(found, middle[len(rows) :], strict=False):
        row["int8_latency_ms"] = taken
    options = context.recipe.device.options if context.recipe.device else None
    if isinstance(options, HostOptions) and chosen_isa(options.isa) == "avx512":
        lesser = HostDevice(replace(options, isa="avx2")).measure_models(files[: len(rows)], rounds=rounds)
        for row, taken in zip(found, np.median(1e3 * lesser, axis=0).tolist(), strict=True):
            row["avx2_latency_ms"] = taken
    return found


def summary(rows: Sequence[Row]) -> str:
    """A table, slowest first."""
    int8 = any("int8_top1" in row for row in rows)
    lines = [
        "| method | predicted ms | measured ms | AVX2 ms | top-1 at once | top-1 trained | KiB |"
        + int8 * " int8 ms | top-1 |",
        "|---|---|---|---|---|---|---|" + int8 * "---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row["measured_latency_ms"]):
        once = "" if row["top1_one_shot"] is None else f"{row['top1_one_shot']:.3f}"
        lesser = f"{row['avx2_latency_ms']:.2f}" if "avx2_latency_ms" in row else ""
        lines.append(
            f"| {row['method']} | {row['predicted_latency_ms']:.2f} | {row['measured_latency_ms']:.2f} | {lesser} | {once} "
            f"| {row['top1']:.3f} | {row['file_bytes'] / 1024:,.0f} |"
            + (f" {row['int8_latency_ms']:.2f} | {row['int8_top1']:.3f} |" if int8 else "")
        )
    return "\n".join(lines)


def draw(rows: Sequence[Row]) -> Any:
    """Accuracy by measured latency."""
    figure, [[axis]] = subplots(1, 1, 6, 4)
    for method in dict.fromkeys(row["method"] for row in rows):
        own = sorted((r["measured_latency_ms"], r["top1"]) for r in rows if r["method"] == method)
        axis.plot(*zip(*own, strict=True), marker="o", label=method)
    axis.set(xlabel="ms", ylabel="top-1")
    axis.legend()
    return figure


def main() -> None:
    """Parse the command line and run."""
    parser = command_line(__doc__, quick="two models, a coarse table and a short search")
    parser.add_argument("recipe", type=Path)
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="as of `jcw run`"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the recipe's run")
    parser.add_argument("--rounds", type=int, default=30, help="times that each model is timed")
    parser.add_argument("--int8", action="store_true", help="time and score all models in int8 as well")
    parser.add_argument(
        "--minutes",
        type=float,
        default=float("inf"),
        help="no model is begun after these; run again to go on",
    )
    args = parser.parse_args()
    try:
        rows, models = run(args)
    except JcwError as error:
        sys.exit(f"error: {error}")
    print(summary(rows))
    if args.out:
        used = versions("jcw-core", "jcw-kernels", "jcw-latency", "jcw-search", "jcw-retrain", "torch")
        ran = machine(isa=chosen_isa(), system=system())
        changed = [text for text in args.set if not text.startswith(_PLACES)]
        results = {
            "machine": ran, "versions": used, "recipe": args.recipe.name, "set": changed,
            "models_to_make": models, "rows": rows,
        }  # fmt: skip
        write(args.out, results, draw(rows))
        if len(rows) == models:
            forget(args.out)


if __name__ == "__main__":
    main()

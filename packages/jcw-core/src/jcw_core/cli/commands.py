"""``jcw run`` and ``jcw show``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_core.cli.text import as_json, echo, note
from jcw_core.errors import RecipeError
from jcw_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from jcw_core.recipe.recipe import Recipe
    from jcw_core.run.context import Context
    from jcw_core.run.time_limit import TimeLimit


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option(
    "--runs", type=click.Path(path_type=Path), default="runs", show_default=True, help="Folder of all runs."
)
@click.option("--until", default="report", show_default=True, help="Last stage to run.")
@click.option(
    "--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="Replace a value of the recipe."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the recipe, its images and its network, and list the stages and their work without running them.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="With --dry-run, print a JSON object per stage instead."
)
@click.pass_obj
def run(
    registry: Registry,
    recipe: Path,
    runs: Path,
    until: str,
    overrides: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Profile, search, retrain, export and report, as RECIPE says.

    A run that was interrupted continues where it stopped; finished stages are skipped while their
    inputs stay the same.
    """
    from jcw_core.cli.together import joined
    from jcw_core.recipe.recipe import load_recipe
    from jcw_core.run.context import Context
    from jcw_core.run.directory import RunDirectory
    from jcw_core.run.pipeline import run as run_stages
    from jcw_core.run.same_data import require_same_data
    from jcw_core.run.time_limit import with_settings

    if as_json and not dry_run:
        raise click.UsageError("--json is for --dry-run; what a run finds is in its report.json")
    with joined(registry) as ranks:
        given = _given(overrides)
        read = load_recipe(recipe, registry, given)
        context = Context(read, registry, RunDirectory(runs / _run_name(read, recipe)), ranks=ranks)
        require_same_data(context)
        if ranks.is_first:
            _run(context, until, overrides, dry_run, as_json)
        elif not dry_run:
            settings = ranks.first(dict[str, int])
            run_stages(with_settings(context, {**given, **settings}) if settings else context, until)


def _run(context: Context, until: str, overrides: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Run the stages, or list them, and tell the user; of several processes the first does so."""
    from jcw_core.cli.dry_run import print_plan
    from jcw_core.cli.following import following
    from jcw_core.run.checks import check
    from jcw_core.run.origin import remember_recipe
    from jcw_core.run.pipeline import StageEvent, plan
    from jcw_core.run.pipeline import run as run_stages
    from jcw_core.run.time_limit import cut_to_time
    from jcw_core.space.whole import fixed_layers, in_words, unpruned_layers

    read, registry, directory = context.recipe, context.registry, context.directory
    given, settings = _given(overrides), dict[str, int]()
    for found in check(context, plan(context, until)):
        note(f"note: {found}")
    limit = cut_to_time(context, until, given) if read.run.time else None
    if limit is not None:
        context = limit.context
        note(f"note: {_in_words(limit)}")
        settings = dict(limit.settings)
        overrides += tuple(f"{key}={value}" for key, value in settings.items())
    stages = plan(context, until)
    if dry_run:
        print_plan(context, stages, as_json=as_json)
        fixed = fixed_layers(context.network, read.space.step)
        for line in in_words(fixed, unpruned_layers(context.network)):
            (note if as_json else echo)(f"kept whole: {line}")
        return
    context.ranks.first(lambda: settings)
    with following(directory.root, registry) as follow:

        def tell(event: StageEvent) -> None:
            if event.state == "started":  # not before: a recipe that is refused leaves the run as it was
                remember_recipe(directory, read.path, overrides)
                if limit is not None:
                    limit.keep()
            follow(event)

        run_stages(context, until, tell)
    if until == "report":
        _say_summaries(registry, directory.path("report.json"))
    page = directory.path("report.html")
    made, place = ("report", page) if until == "report" else ("run", directory.root)
    echo(f"{made}: {place.absolute()}")


def _given(overrides: tuple[str, ...]) -> Mapping[str, Any]:
    """Values by ``"table.key"`` that ``--set`` gives."""
    from jcw_core.options import assignment

    return dict(assignment(text, "--set", "TABLE.KEY") for text in overrides)


def _in_words(limit: TimeLimit) -> str:
    """What a time limit came to."""
    from jcw_core.shown import duration

    ends = [f"{name} at most {duration(seconds)}" for name, seconds in limit.ends.items()]
    if not limit.seconds and ends:  # as of a run that ends before them
        return f"{', '.join(ends)}, as a share of run.time"
    time = ", ".join([f"trainings and search take about {duration(limit.seconds)} here", *ends])
    wanted, seconds = limit.context.recipe.run, limit.seconds + sum(limit.ends.values())
    if wanted.seconds is not None and seconds > wanted.seconds:
        time += f", more than run.time = {wanted.time}, as nothing can be cut further"
    if not limit.settings:
        return f"{time}, with all settings as they are"
    return f"{time}, with {', '.join(f'{key} = {value}' for key, value in limit.settings.items())}"


def _run_name(read: Recipe, path: Path) -> str:
    """The folder of a run below that of all runs."""
    name = read.run.name or path.stem
    if name in (".", ".."):
        raise RecipeError(f"{path}: its name gives no folder for the run; set run.name")
    return name


@click.command()
@click.argument("run_directory", metavar="RUN", type=click.Path(path_type=Path))
@as_json
@click.make_pass_decorator(Registry, ensure=True)
def show(registry: Registry, run_directory: Path, as_json: bool) -> None:
    """Print the models of a finished run.

    RUN is its folder, e.g. runs/quickstart. Below the models stands how long its stages took.
    """
    from jcw_core.cli.text import echo_json, print_table
    from jcw_core.errors import FormatError
    from jcw_core.files import read_json
    from jcw_core.report.durations import line
    from jcw_core.report.stages import FORMAT

    path = run_directory / "report.json"
    if not os.path.lexists(path):
        raise FormatError(
            f"{path}: no such file; the last stage of jcw run writes it, jcw watch shows a run before"
        )
    report = read_json(path, kind=FORMAT)
    try:
        if as_json:
            echo_json(_rows(report))
            return
        print_table(_models(report))
        if taken := line(report):
            echo(taken)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{path}: not a report ({error!r}); run its recipe again") from None
    _say_summaries(registry, path)


def _say_summaries(registry: Registry, path: Path) -> None:
    """What the sections of a report say of it in a line each."""
    from jcw_core.files import read_json
    from jcw_core.protocols import Summarizing

    report = read_json(path)
    for section in sorted(registry.report_sections.values(), key=lambda section: section.order):
        data = report.get(section.name)
        if isinstance(section, Summarizing) and isinstance(data, dict) and (line := section.summary(data)):
            echo(line)


def _rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is shown of each model of a report, in plain numbers; latencies in ms, errors as shares."""
    from jcw_core.report.budget import excess

    copied = ("requested_latency_ms", "predicted_latency_ms", "measured_latency_ms")
    return [
        {"id": row["id"], **{key: row[key] for key in copied}}
        | {"meets_budget": None if (over := excess(row)) is None else over == 0}
        | {key: row.get(key) for key in ("test_error", "distance", "kept_weights")}
        for row in (report["baseline"], *report["models"])
    ]


def _models(report: Mapping[str, Any]) -> Table:
    """A row for each model of a report, the dense network first."""
    from rich.table import Table

    from jcw_core.report.budget import error_head, excess, in_words, score

    table = Table(title=f"{report['network']} on {report['dataset']}, {report['device']['cpu']}")
    heads = (
        "model",
        "requested ms",
        "predicted ms",
        "measured ms",
        "budget",
        "speed-up",
        error_head(report),
        "weights",
    )
    for head in heads:
        table.add_column(head, justify="left" if head == "model" else "right")
    dense = report["baseline"]["measured_latency_ms"]
    for row in (report["baseline"], *report["models"]):
        measured = row["measured_latency_ms"]
        times = [row[f"{kind}_latency_ms"] for kind in ("requested", "predicted", "measured")]
        table.add_row(
            str(row["id"]),
            *("-" if t is None else f"{t:.3f}" for t in times),
            "-" if (over := excess(row)) is None else f"missed by {in_words(over)}" if over else "met",
            f"{dense / measured:.2f}" if dense and measured else "-",
            f"{score(row):.2%}",
            f"{row['kept_weights']:,}",
        )
    return table

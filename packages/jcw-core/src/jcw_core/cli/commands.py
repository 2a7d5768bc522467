"""``jcw run``, ``jcw recipe``, ``jcw plugins``, ``jcw networks`` and ``jcw show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_core.backbones.family import WIDTHS
from jcw_core.cli.text import echo
from jcw_core.errors import JcwError, RecipeError
from jcw_core.names import printable
from jcw_core.plugin_checks import build_network
from jcw_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from jcw_core.recipe.recipe import Recipe


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
@click.pass_obj
def run(
    registry: Registry, recipe: Path, runs: Path, until: str, overrides: tuple[str, ...], dry_run: bool
) -> None:
    """Profile, search, retrain, export and report, as RECIPE says.

    A run that was interrupted continues where it stopped; finished stages are skipped while their
    inputs stay the same.
    """
    from jcw_core.cli.dry_run import print_plan
    from jcw_core.cli.progress import TerminalProgress
    from jcw_core.errors import continues_from
    from jcw_core.options import assignment
    from jcw_core.recipe.recipe import load_recipe
    from jcw_core.run.checks import check
    from jcw_core.run.context import Context
    from jcw_core.run.directory import RunDirectory
    from jcw_core.run.origin import remember_recipe
    from jcw_core.run.pipeline import StageEvent, plan
    from jcw_core.run.pipeline import run as run_stages
    from jcw_core.space.whole import fixed_layers, in_words, unpruned_layers

    read = load_recipe(recipe, registry, dict(assignment(text, "--set", "TABLE.KEY") for text in overrides))
    directory = RunDirectory(runs / _run_name(read, recipe))
    context = Context(read, registry, directory)
    stages = plan(context, until)
    for note in check(context, stages):
        echo(f"note: {note}", err=True)
    if dry_run:
        print_plan(context, stages)
        fixed = fixed_layers(context.network, read.space.step)
        for line in in_words(fixed, unpruned_layers(context.network)):
            echo(f"kept whole: {line}")
        return
    with continues_from(directory.root), TerminalProgress() as progress:
        registry.add("terminal-progress", progress)

        def tell(event: StageEvent) -> None:
            if event.state == "started":  # not before: a recipe that is refused leaves the run as it was
                remember_recipe(directory, recipe, overrides)
            progress.stage(event)

        run_stages(context, until, tell)
    if until == "report":
        _say_summaries(registry, directory.path("report.json"))
    page = directory.path("report.html")
    made, place = ("report", page) if until == "report" else ("run", directory.root)
    echo(f"{made}: {place.absolute()}")


def _run_name(read: Recipe, path: Path) -> str:
    """The folder of a run below that of all runs."""
    name = read.run.name or path.stem
    if name in (".", ".."):
        raise RecipeError(f"{path}: its name gives no folder for the run; set run.name")
    return name


@click.command()
@click.pass_obj
def plugins(registry: Registry) -> None:
    """List what is installed, by kind, and what failed to load."""
    families = (
        registry.backbones,
        registry.devices,
        registry.datasets,
        registry.objectives,
        registry.selections,
        registry.importances,
        registry.exporters,
        registry.stages,
        registry.report_sections,
        registry.commands,
    )
    for family in families:
        click.secho(
            f"{family.kind}s" if not family.kind.endswith("y") else f"{family.kind[:-1]}ies", bold=True
        )
        for name in sorted(family):
            click.echo(f"  {name:16} {family.origins[name]}")
    for name, reason in registry.failures.items():
        line = " ".join(f"failed: {name}: {reason}".split())
        click.secho(printable(line), fg="red", err=True)
    if registry.failures:
        raise JcwError(f"{len(registry.failures)} plugin(s) failed to load; update or uninstall them")


@click.command()
@click.argument("network", required=False)
@click.option("--input-size", default=224, show_default=True, help="Height and width of the input in pixels.")
@click.option("--classes", default=1000, show_default=True, help="Number of classes.")
@click.option(
    "--width", default=1.0, show_default=True, type=click.FloatRange(*WIDTHS), help="Factor on all channels."
)
@click.option("--json", "name", metavar="NETWORK", help="Print one network as JSON instead.")
@click.pass_obj
def networks(
    registry: Registry, network: str | None, input_size: int, classes: int, width: float, name: str | None
) -> None:
    """List the backbones, or the layers of one.

    Beside each backbone are its MACs, parameters and search dimensions.

    With NETWORK, a backbone or a network's JSON file, list its layers, what a search may take from each, and
    why some stay whole.
    """
    from jcw_core.cli.network_layers import describe
    from jcw_core.network.graph import Network
    from jcw_core.space.space import SearchSpace

    def build(backbone: str) -> Any:
        return build_network(
            registry.backbones[backbone], num_classes=classes, width=width, input_size=input_size
        )

    if name is not None:
        click.echo(build(name).to_json())
        return
    if network is not None:
        is_file = network not in registry.backbones and Path(network).suffix == ".json"
        for line in describe(Network.read(Path(network)) if is_file else build(network)):
            click.echo(line)
        return
    click.echo(f"{'network':16}{'MACs':>16}{'parameters':>14}{'groups':>8}{'prunable':>10}")
    for backbone, plugin in sorted(registry.backbones.items()):
        made = build(backbone)
        space = SearchSpace.of(made, defaults=plugin.bounds)
        widths = sum(v.kind == "width" for v in space.variables)
        click.echo(
            f"{backbone:16}{made.macs:>16,}{made.parameters:>14,}{widths:>8}{space.dimensions - widths:>10}"
        )


@click.command()
@click.pass_obj
def recipe(registry: Registry) -> None:
    """Print every key that a recipe may have, with defaults."""
    from jcw_core.recipe.reference import describe

    click.echo(describe(registry))


@click.command()
@click.argument("run_directory", metavar="RUN", type=click.Path(path_type=Path))
@click.make_pass_decorator(Registry, ensure=True)
def show(registry: Registry, run_directory: Path) -> None:
    """Print the models of a finished run.

    RUN is its folder, e.g. runs/quickstart.
    """
    from jcw_core.cli.text import print_table
    from jcw_core.errors import FormatError
    from jcw_core.files import read_json
    from jcw_core.report.stages import FORMAT

    path = run_directory / "report.json"
    report = read_json(path, kind=FORMAT)
    try:
        print_table(_models(report))
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

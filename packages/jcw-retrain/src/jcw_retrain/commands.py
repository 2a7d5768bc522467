"""``jcw search fidelity``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jcw_core.registry import Registry
    from jcw_core.run.context import Context

PATH = click.Path(path_type=Path)


@click.group()
def search() -> None:
    """Say how far a search can be believed."""


@search.command()
@click.argument("run_directory", metavar="RUN", type=PATH)
@click.option("--recipe", type=PATH, help="The run's recipe, where it has been moved.")
@click.option(
    "--networks", default=20, show_default=True, type=click.IntRange(5), help="Random networks to train."
)
@click.option(
    "--epochs",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="Epochs of each, divided among the recipe's phases as theirs are; at most as many as the recipe has.",
)
@click.option("--objective", help="Whose estimates; by default the search's first one after latency.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the networks.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: kendall_tau, its interval (95 %, bootstrap), objective, networks, epochs, and points, each with "
    "architecture, estimate and error.",
)
@click.pass_obj
def fidelity(
    registry: Registry,
    run_directory: Path,
    recipe: Path | None,
    networks: int,
    epochs: int,
    objective: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compare the estimates by which RUN searched with networks that are trained alone.

    Random networks are trained on a short schedule, and Kendall's tau says how far their errors are in the order of
    the estimates: 1 for the same, 0 for none. It is also written to rank_fidelity.json in RUN, and
    from there into its report when `jcw run` is given the recipe again. When interrupted, the same command goes on
    from the last epoch.
    """
    import json

    from jcw_core.cli.progress import TerminalProgress
    from jcw_core.errors import continues_from
    from jcw_core.report.stages import REPORT
    from jcw_core.run.origin import open_run
    from jcw_core.training.extra import implementation

    work = implementation("jcw_retrain.rank_fidelity")
    context = open_run(registry, run_directory, recipe)
    sampling = work.Sampling(objective or _estimated(context), networks, epochs, seed)
    with continues_from(run_directory), TerminalProgress() as progress:
        registry.add("terminal-progress", progress)
        found = work.rank_fidelity(context, sampling)
    if as_json:
        click.echo(json.dumps(found))
        return
    low, high = found["interval"]
    click.echo(
        f"{found['networks']} networks, each trained alone for {found['epochs']} epochs\n"
        f"Kendall's tau between their errors and the search's {found['objective']} {found['kendall_tau']:.3f} "
        f"({found['confidence']:.0%} interval {low:.3f} to {high:.3f}, by the bootstrap)"
    )
    if (run_directory / REPORT).is_file():
        click.echo(f"jcw run {context.recipe.path} writes it into the report")


def _estimated(context: Context) -> str:
    """The first objective of the search after latency; ``"error"`` where the recipe does not say."""
    names = getattr(context.recipe.stages.get("search"), "objectives", ())
    return next((str(name) for name in names if name != "latency"), "error")

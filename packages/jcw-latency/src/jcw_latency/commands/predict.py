"""``jcw predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_core.cli.text import echo
from jcw_latency.commands.arguments import PATH, network_name, read_architectures

if TYPE_CHECKING:
    from jcw_latency.table.predictor import Breakdown


@click.command()
@click.argument("table", type=PATH)
@click.argument("architectures", type=PATH, nargs=-1, required=True)
@network_name
@click.option("--layers", is_flag=True, help="Print what each layer costs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def predict(
    table: Path, architectures: tuple[Path, ...], network_name: str | None, layers: bool, as_json: bool
) -> None:
    """Predict the latency of ARCHITECTURES from TABLE.

    Each is a JSON file: one architecture (its widths and densities by name), a front.json of a
    search, or a models/index.json of a run.
    """
    costs = _costs(table, architectures, network_name)
    if as_json:
        click.echo(json.dumps([_row(label, cost, layers=layers) for label, cost in costs.items()]))
        return
    for label, cost in costs.items():
        total = cost.total_ms
        echo(f"{label}: {total:.4f} ms")
        for name, ms in (*cost.layers.items(), ("overhead", cost.overhead_ms)) if layers else ():
            echo(f"  {name:32}{ms:10.4f} ms{ms / total if total else 0:8.1%}")


def _costs(table: Path, architectures: tuple[Path, ...], network_name: str | None) -> dict[str, Breakdown]:
    """What each architecture costs, by its label."""
    from jcw_core.errors import ArchitectureError
    from jcw_core.space.space import SearchSpace
    from jcw_latency.table.predictor import LatencyPredictor
    from jcw_latency.table.table import LatencyTable

    read = LatencyTable.load(table)
    network = read.network(network_name)
    # In steps of one channel, so that every width is a member.
    predictor = LatencyPredictor(read, SearchSpace.of(network, step=1))
    costs: dict[str, Breakdown] = {}
    for path in architectures:
        for label, architecture in read_architectures(path, network.name):
            try:
                costs[label] = predictor.breakdown(architecture)
            except ArchitectureError as error:
                raise ArchitectureError(f"{label}: {error}") from None
    return costs


def _row(label: str, cost: Breakdown, *, layers: bool) -> dict[str, Any]:
    row = {"architecture": label, "latency_ms": cost.total_ms}
    return {**row, "layers": cost.layers, "overhead_ms": cost.overhead_ms} if layers else row

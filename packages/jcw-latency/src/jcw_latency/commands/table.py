"""``jcw table show``, ``diff`` and ``merge``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_core.cli.text import as_json_object, echo, echo_json, print_table
from jcw_latency.commands.arguments import PATH

if TYPE_CHECKING:
    from rich.table import Table

    from jcw_latency.table.end_to_end import EndToEndFit
    from jcw_latency.table.table import LatencyTable


@click.group()
def table() -> None:
    """What is in latency tables, what differs, and several in one."""


@table.command()
@click.argument("file", metavar="TABLE", type=PATH)
@as_json_object
def show(file: Path, as_json: bool) -> None:
    """Print what TABLE was measured on, how, and what each layer costs."""
    from jcw_latency.table.compare import noise
    from jcw_latency.table.table import LatencyTable

    read = LatencyTable.load(file)
    if as_json:
        echo_json([_document(read)])
        return
    device = read.device
    versions = ", ".join(f"{name} {version}" for name, version in device.versions.items())
    echo(f"{device.name}: {device.cpu}, {device.isa}, {device.threads} thread(s), {versions}")
    for network in read.networks:
        fit = read.end_to_end.get(network.name)
        run = f": whole run = {_curve(fit)}" if fit else ""
        echo(f"network {network.name}, input {' x '.join(map(str, network.input_shape))}{run}")
    for key, value in read.settings.items():
        echo(f"{key}: {value}")
    rows = _table("layer", "grid", "full ms", "spread", "rounds")
    for grid in read.grids:
        shape = " x ".join(f"{len(points)} {axis}" for axis, points in grid.axes.items())
        timed = grid.rounds[grid.ms > 0]
        rounds = f"{timed.min()}-{timed.max()}" if timed.size else "-"
        rows.add_row(grid.label, shape or "1", f"{grid.ms.flat[-1]:.4f}", f"{noise(grid):.1%}", rounds)
    print_table(rows)


@table.command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@as_json_object
def diff(first: Path, second: Path, as_json: bool) -> None:
    """Hold SECOND against FIRST, layer by layer, to see a device that drifted or an engine that changed."""
    import numpy as np

    from jcw_latency.table.compare import compare
    from jcw_latency.table.table import LatencyTable

    one, other = LatencyTable.load(first), LatencyTable.load(second)
    devices = one.device.to_dict(), other.device.to_dict()
    changed = {
        name: [d[name] for d in devices] for name in devices[0] if devices[0][name] != devices[1][name]
    }
    found = compare(one, other)
    if as_json:
        echo_json([{"device": changed, **asdict(found)}])
        return
    for name, (before, after) in changed.items():
        echo(f"{name}: {before} -> {after}")
    rows = _table("layer", "first ms", "second ms", "ratio", "lowest", "highest", "noise")
    for c in found.changes:
        ratios = (f"{value:.3f}" for value in (c.ratio, c.lowest, c.highest))
        rows.add_row(c.label, f"{c.first_ms:.4f}", f"{c.second_ms:.4f}", *ratios, f"{c.noise:.1%}")
    print_table(rows)
    ratio = np.median([change.ratio for change in found.changes])
    echo(f"median ratio of {len(found.changes)} layers: {ratio:.3f}")
    if found.left_out:
        echo(f"not compared: {found.left_out}")


@table.command()
@click.argument("files", metavar="TABLE...", type=PATH, nargs=-1, required=True)
@click.option("-o", "--output", type=PATH, required=True, help="Table to write.")
def merge(files: tuple[Path, ...], output: Path) -> None:
    """Join the tables of several networks on one device; layers that they share are kept once."""
    from jcw_latency.table.compare import merge as join
    from jcw_latency.table.table import LatencyTable

    joined = join([LatencyTable.load(file) for file in files])
    joined.save(output)
    echo(f"{output}: {', '.join(n.name for n in joined.networks)}, {len(joined.grids)} layers")


def _document(table: LatencyTable) -> dict[str, Any]:
    """A table as ``show`` prints it, in plain numbers; times in ms, the noise as a share."""
    from jcw_latency.table.compare import noise

    fits = {name: fit.to_dict() for name, fit in table.end_to_end.items()}
    layers = [
        {
            "layer": grid.label,
            "layers": list(grid.layers),
            "points": {k: len(v) for k, v in grid.axes.items()},
        }
        | {"full_ms": float(grid.ms.flat[-1]), "noise": float(noise(grid)), "rounds": int(grid.rounds.max())}
        for grid in table.grids
    ]
    return {
        "device": table.device.to_dict(),
        "networks": [
            {"name": n.name, "input": n.input_shape, "whole": fits.get(n.name)} for n in table.networks
        ],
        "settings": dict(table.settings),
        "layers": layers,
    }


def _curve(fit: EndToEndFit) -> str:
    quadratic = f" + {fit.quadratic:.4f} / ms x layers^2" if fit.quadratic else ""
    start = f", in proportion below {fit.smallest_ms:.4f} ms of layers" if fit.smallest_ms else ""
    return f"{fit.scale:.3f} x layers{quadratic} + {fit.overhead_ms:.4f} ms{start}"


def _table(*heads: str) -> Table:
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for index, head in enumerate(heads):
        made.add_column(head, justify="right" if index else "left", overflow="fold")
    return made

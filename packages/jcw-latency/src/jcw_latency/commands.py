"""``jcw profile``, ``jcw predict`` and ``jcw check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from jcw_core.registry import Registry

_path = click.Path(path_type=Path)
_device_options = click.option(
    "--option",
    "device_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the device; may be repeated.",
)
_network_name = click.option(
    "--network", "network_name", help="One of the table's networks, if it has several."
)


@click.command()
@click.argument("network")
@click.option("--device", "device_name", required=True, help="Device to measure on; see `jcw plugins`.")
@_device_options
@click.option(
    "-o", "--output", type=_path, default="table.npz", show_default=True, help="Latency table to write."
)
@click.option("--input-size", default=224, show_default=True, help="Height and width of a backbone's input.")
@click.option("--classes", default=1000, show_default=True, help="Classes of a backbone.")
@click.option("--width", default=1.0, show_default=True, help="Factor on all channels of a backbone.")
@click.option("--in-channels", default=3, show_default=True, help="Input channels of a backbone.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Key of [latency], e.g. rounds=50."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the order of visits.")
@click.pass_obj
def profile(
    registry: Registry,
    network: str,
    device_name: str,
    device_options: tuple[str, ...],
    output: Path,
    input_size: int,
    classes: int,
    width: float,
    in_channels: int,
    settings: tuple[str, ...],
    seed: int,
) -> None:
    """Time every layer of NETWORK, a backbone's name or a network as JSON, on a device.

    An interrupted profile continues where it stopped when the same command is run again.
    """
    import tempfile

    import numpy as np

    from jcw_core.network import Network
    from jcw_core.options import parse
    from jcw_core.progress import TerminalProgress
    from jcw_core.protocols import Progress
    from jcw_latency.arguments import assignments, open_device, space_of
    from jcw_latency.options import LatencyOptions
    from jcw_latency.profiling import profile as measure
    from jcw_latency.whole import with_whole_run

    options = parse(LatencyOptions, *assignments("--set", settings))
    if Path(network).suffix == ".json":
        found = Network.read(Path(network))
    else:
        found = registry.backbones[network].build(
            num_classes=classes, width=width, input_size=input_size, in_channels=in_channels
        )
    device = open_device(registry, device_name, device_options)
    # Before minutes of measuring: an exporter that is not installed.
    exporter = registry.exporters[device.model_format] if device.model_format else None
    partial = output.with_name(f"{output.name}.partial")
    rng = np.random.default_rng(seed)
    with TerminalProgress() as listener, tempfile.TemporaryDirectory(prefix="jcw-profile-") as folder:
        registry.add("terminal-progress", listener)

        def notify(unit: str) -> Callable[[int, int, str], None]:
            return lambda done, total, detail: registry.progress(
                Progress("profile", unit, done, total, detail)
            )

        table = measure(found, device, options, rng=rng, partial=partial, notify=notify("point"))
        if exporter is not None:
            table = with_whole_run(
                table, device, exporter, space_of(registry, found), options,
                rng=rng, folder=Path(folder), notify=notify("network"),
            )  # fmt: skip
    table.write(output)
    partial.unlink(missing_ok=True)
    click.echo(f"{output}: {len(table.grids)} layers, {table.settings['points']} points")
    if table.settings["drift"] > options.busy:
        click.echo(
            f"warning: the machine was busy or changed its clock: a layer that was timed throughout varied by "
            f"{table.settings['drift']:.0%}; profile again on an idle machine for a table to rely on",
            err=True,
        )


@click.command()
@click.argument("table", type=_path)
@click.argument("architectures", type=_path, nargs=-1, required=True)
@_network_name
@click.option("--layers", is_flag=True, help="Print what each layer costs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def predict(
    table: Path, architectures: tuple[Path, ...], network_name: str | None, layers: bool, as_json: bool
) -> None:
    """Predict the latency of ARCHITECTURES from TABLE.

    Each is a JSON file: one architecture (its widths and densities by name), a front.json of a
    search, or a models/index.json of a run.
    """
    from jcw_core.space import SearchSpace
    from jcw_latency.arguments import read_architectures
    from jcw_latency.predictor import LatencyPredictor
    from jcw_latency.table import LatencyTable

    read = LatencyTable.read(table)
    # In steps of one channel, so that every width is a member.
    predictor = LatencyPredictor(read, SearchSpace.of(read.network(network_name), step=1))
    costs = {
        label: predictor.breakdown(architecture)
        for path in architectures
        for label, architecture in read_architectures(path)
    }
    if as_json:
        rows = [{"architecture": label, "latency_ms": sum(parts.values())} for label, parts in costs.items()]
        click.echo(
            json.dumps([{**r, "layers": costs[str(r["architecture"])]} for r in rows] if layers else rows)
        )
        return
    for label, parts in costs.items():
        total = sum(parts.values())
        click.echo(f"{label}: {total:.4f} ms")
        for name, ms in parts.items() if layers else ():
            click.echo(f"  {name:32}{ms:10.4f} ms{ms / total if total else 0:8.1%}")


@click.command()
@click.argument("table", type=_path)
@click.option(
    "--networks", default=100, show_default=True, type=click.IntRange(2), help="Random networks to run."
)
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1), help="Runs of each network.")
@click.option("--device", "device_name", help="Device to run on; by default the table's own.")
@_device_options
@_network_name
@click.option("--seed", default=0, show_default=True, help="Seed of architectures and weights.")
@click.option(
    "--timeout", default=600.0, show_default=True, help="Seconds after which a device counts as hung."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def check(
    registry: Registry,
    table: Path,
    networks: int,
    rounds: int,
    device_name: str | None,
    device_options: tuple[str, ...],
    network_name: str | None,
    seed: int,
    timeout: float,
    as_json: bool,
) -> None:
    """Compare TABLE's predictions with random networks that run on the device.

    A device that runs no whole models times their layers one by one instead.
    """
    import tempfile

    import numpy as np

    from jcw_core.progress import TerminalProgress
    from jcw_core.protocols import Progress
    from jcw_latency.arguments import open_device, space_of
    from jcw_latency.fidelity import check as compare
    from jcw_latency.guard import GuardedDevice
    from jcw_latency.predictor import LatencyPredictor
    from jcw_latency.table import LatencyTable

    read = LatencyTable.read(table)
    space = space_of(registry, read.network(network_name))
    device = GuardedDevice(open_device(registry, device_name or read.device.name, device_options), timeout)
    read.require(device.info)
    rng = np.random.default_rng(seed)
    with TerminalProgress() as listener, tempfile.TemporaryDirectory(prefix="jcw-check-") as folder:
        registry.add("terminal-progress", listener)
        found = compare(
            LatencyPredictor(read, space),
            device,
            registry.exporters[device.model_format] if device.model_format else None,
            space.sample(networks, rng),
            rounds=rounds,
            rng=rng,
            folder=Path(folder),
            notify=lambda done, total, detail: registry.progress(
                Progress("check", "network", done, total, detail)
            ),
        ).to_dict()
    if as_json:
        click.echo(json.dumps(found))
        return
    how = (
        "run whole"
        if found["method"] == "networks"
        else "timed layer by layer, since the device runs no models"
    )
    click.echo(f"{found['networks']} networks, {how}")
    click.echo(f"mean error {found['mape']:.2%}, largest {found['max_error']:.2%}, bias {found['bias']:+.2%}")
    click.echo(
        f"Kendall's tau {found['kendall_tau']:.3f}; of MACs as predictor {found['macs_kendall_tau']:.3f}"
    )

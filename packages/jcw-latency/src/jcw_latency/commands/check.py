"""``jcw check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_latency.commands.options import PATH, device_options, network_name

if TYPE_CHECKING:
    from jcw_core.registry import Registry


@click.command()
@click.argument("table", type=PATH)
@click.option(
    "--networks", default=100, show_default=True, type=click.IntRange(2), help="Random networks to run."
)
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1), help="Runs of each network.")
@click.option("--device", "device_name", help="Device to run on; by default the table's own.")
@device_options
@network_name
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of architectures and weights."
)
@click.option(
    "--timeout", default=600.0, show_default=True, help="Seconds after which a device counts as hung."
)
@click.option(
    "--plot",
    type=PATH,
    metavar="FILE.png",
    help="Draw predicted against measured latency, beside multiply-accumulates against it; needs the extra [plot].",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: mape, max_error, bias, kendall_tau, networks; macs_kendall_tau (of multiply-accumulates as "
    "predictor), method (networks or layers), slowdown (of the network itself since the profile, or null) and "
    "points, each with predicted_ms, measured_ms and macs.",
)
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
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare TABLE's predictions with random networks that run on the device.

    A device that runs no whole models times their layers one by one instead.
    """
    import tempfile

    import numpy as np

    from jcw_core.cli.progress import TerminalProgress
    from jcw_core.files import require_writable
    from jcw_core.options import Location, parse
    from jcw_core.protocols import Progress
    from jcw_latency.commands.arguments import open_device, space_of
    from jcw_latency.devices.guarded import GuardedDevice
    from jcw_latency.fidelity import figure
    from jcw_latency.fidelity.check import check as compare
    from jcw_latency.options import LatencyOptions
    from jcw_latency.table.predictor import LatencyPredictor
    from jcw_latency.table.table import LatencyTable

    options = parse(LatencyOptions, {"timeout": timeout}, Location(Path("check")))
    if plot:
        figure.require(plot)
        require_writable(plot)
    read = LatencyTable.read(table)
    network = read.network(network_name)
    space = space_of(registry, network)
    opened = open_device(registry, device_name or read.device.name, device_options)
    device = GuardedDevice(opened, options.timeout)
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
    else:
        _say(found)
    if plot:
        figure.draw(found, network, device.info, plot)


def _say(found: dict[str, Any]) -> None:
    """The figures for people."""
    from jcw_latency.fidelity.check import machine

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
    if found["slowdown"] is not None:
        click.echo(machine(found["slowdown"]))

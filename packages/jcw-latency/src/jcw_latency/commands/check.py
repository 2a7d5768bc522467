"""``jcw check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_core.cli.text import echo
from jcw_latency.commands.arguments import (
    PATH,
    combined,
    device_options,
    network_name,
    open_device,
    progress_shown,
    seed_of,
    space_of,
)

if TYPE_CHECKING:
    from jcw_core.network.graph import Network
    from jcw_core.protocols import DeviceInfo
    from jcw_core.registry import Registry
    from jcw_latency.table.table import LatencyTable


_OPTIONS = (
    click.option(
        "--networks", default=100, show_default=True, type=click.IntRange(2), help="Random networks to run."
    ),
    click.option(
        "--rounds", default=20, show_default=True, type=click.IntRange(1), help="Runs of each network."
    ),
    click.option("--device", "device_name", help="Device to run on; by default the table's own."),
    device_options,
    network_name,
    seed_of("architectures and weights"),
    click.option(
        "--timeout", default=600.0, show_default=True, help="Seconds after which a device counts as hung."
    ),
    click.option(
        "--plot",
        type=PATH,
        metavar="FILE.png",
        help="Draw predicted against measured latency, beside multiply-accumulates against it; needs the extra [plot].",
    ),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print JSON: mape, max_error, bias, kendall_tau, networks; macs_kendall_tau (of multiply-accumulates as "
        "predictor), method (networks or layers), slowdown (of the network itself since the profile, or null), verdict "
        "(level, reasons and remedy) and points, each with predicted_ms, measured_ms and macs.",
    ),
)


@click.command()
@click.argument("table", type=PATH)
@combined(_OPTIONS)
@click.pass_obj
def check(registry: Registry, /, table: Path, plot: Path | None, as_json: bool, **how: Any) -> None:
    """Compare TABLE's predictions with networks that run.

    The networks are random prunings, and they run on the device.
    A device that runs no whole models times their layers one by one instead.
    """
    from jcw_core.files import require_writable
    from jcw_latency.fidelity import figure
    from jcw_latency.table.table import LatencyTable

    if plot:
        figure.require(plot)
        require_writable(plot)
    read = LatencyTable.load(table)
    found, network, device = _compared(registry, read, **how)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _say(found)
    if plot:
        figure.draw(found, network, device, plot)


def _compared(
    registry: Registry,
    table: LatencyTable,
    *,
    networks: int,
    rounds: int,
    device_name: str | None,
    device_options: tuple[str, ...],
    network_name: str | None,
    seed: int,
    timeout: float,
) -> tuple[dict[str, Any], Network, DeviceInfo]:
    """What ``Fidelity.to_dict`` says and the verdict, the network at full width, and what it ran on."""
    import tempfile

    import numpy as np

    from jcw_core.options import Location, parse
    from jcw_latency.devices.guarded import GuardedDevice
    from jcw_latency.fidelity.check import check as compare
    from jcw_latency.fidelity.verdict import judge
    from jcw_latency.options import LatencyOptions
    from jcw_latency.profiling.members import covering_members
    from jcw_latency.table.predictor import LatencyPredictor

    options = parse(LatencyOptions, {"timeout": timeout}, Location(Path("check")))
    network = table.network(network_name)
    space = space_of(registry, network)
    opened = open_device(registry, device_name or table.device.name, device_options)
    device = GuardedDevice.of(opened, options.timeout, registry.exporters)
    table.require(device.info)
    rng = np.random.default_rng(seed)
    with progress_shown(registry), tempfile.TemporaryDirectory(prefix="jcw-check-") as folder:
        found = compare(
            LatencyPredictor(table, space), device, covering_members(space, networks, rng),
            rounds=rounds, rng=rng, folder=Path(folder), notify=registry.progress,
        ).to_dict()  # fmt: skip
    verdict = judge(table, found, again=f"jcw profile {network.name} ... --set ")
    return {**found, "verdict": verdict.to_dict()}, network, device.info


def _say(found: dict[str, Any]) -> None:
    """The figures for people."""
    from jcw_latency.fidelity.check import machine
    from jcw_latency.fidelity.verdict import Verdict

    how = (
        "run whole"
        if found["method"] == "networks"
        else "timed layer by layer, since the device runs no models"
    )
    echo(f"{found['networks']} networks, {how}")
    echo(f"mean error {found['mape']:.2%}, largest {found['max_error']:.2%}, bias {found['bias']:+.2%}")
    echo(f"Kendall's tau {found['kendall_tau']:.3f}; of MACs as predictor {found['macs_kendall_tau']:.3f}")
    if found["slowdown"] is not None:
        echo(machine(found["slowdown"]))
    echo(str(Verdict.from_dict(found["verdict"])))

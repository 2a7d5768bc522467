"""``jcw profile`` and ``jcw predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_core.backbones.family import WIDTHS
from jcw_latency.commands.options import PATH, device_options, image_shape, network_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from jcw_core.registry import Registry
    from jcw_latency.table.predictor import Breakdown


@click.command()
@click.argument("network")
@click.option("--device", "device_name", required=True, help="Device to measure on; see `jcw plugins`.")
@device_options
@click.option(
    "-o", "--output", type=PATH, default="table.npz", show_default=True, help="Latency table to write."
)
@click.option(
    "--shape",
    callback=image_shape,
    metavar="1,C,H,W",
    help="Input of an ONNX file that leaves its size open.",
)
@click.option("--input-size", default=224, show_default=True, help="Height and width of a backbone's input.")
@click.option("--classes", default=1000, show_default=True, help="Classes of a backbone.")
@click.option(
    "--width",
    default=1.0,
    show_default=True,
    type=click.FloatRange(*WIDTHS),
    help="Factor on all channels of a backbone.",
)
@click.option("--in-channels", default=3, show_default=True, help="Input channels of a backbone.")
@click.option(
    "--adaptive",
    is_flag=True,
    help="Start from coarse grids and refine them only where points that were held out are predicted worse "
    "than adaptive_tolerance; up to 700 points a layer, usually far fewer. Excludes the keys widths, densities "
    "and placement, which place the points of full grids.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Key of [latency], e.g. rounds=50."
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the order of visits."
)
@click.pass_obj
def profile(
    registry: Registry,
    network: str,
    device_name: str,
    device_options: tuple[str, ...],
    output: Path,
    shape: tuple[int, ...] | None,
    input_size: int,
    classes: int,
    width: float,
    in_channels: int,
    adaptive: bool,
    settings: tuple[str, ...],
    seed: int,
) -> None:
    """Time every layer of NETWORK, a backbone's name or a file, on a device.

    The file is a network as JSON (.json), or a model as ONNX (.onnx), which needs the extra [onnx].

    An interrupted profile continues where it stopped when the same command is run again. Until then its timings
    lie in OUTPUT.partial, whatever else is profiled into the same file.
    """
    import tempfile

    import numpy as np

    from jcw_core.cli.progress import TerminalProgress
    from jcw_core.errors import continues_from
    from jcw_core.files import require_writable
    from jcw_core.options import parse
    from jcw_core.protocols import Progress
    from jcw_latency.commands.arguments import assignments, network_of, open_device, space_of
    from jcw_latency.options import LatencyOptions
    from jcw_latency.profiling.checkpoint import Partial
    from jcw_latency.profiling.profile import profile_space

    settings += ("adaptive=true",) if adaptive else ()
    options = parse(LatencyOptions, *assignments("--set", settings))
    built = {"num_classes": classes, "width": width, "input_size": input_size, "in_channels": in_channels}
    found = network_of(registry, network, shape, **built)
    device = open_device(registry, device_name, device_options)
    # Before minutes of measuring: an exporter that is not installed, a file that cannot be written.
    exporter = registry.exporters[device.model_format] if device.model_format else None
    require_writable(output)
    partial = output.with_name(f"{output.name}.partial")
    require_writable(partial)
    rng = np.random.default_rng(seed)
    with (
        continues_from(partial),
        TerminalProgress() as listener,
        tempfile.TemporaryDirectory(prefix="jcw-profile-") as folder,
    ):
        registry.add("terminal-progress", listener)

        def notify(unit: str) -> Callable[[int, int, str], None]:
            return lambda done, total, detail: registry.progress(
                Progress("profile", unit, done, total, detail)
            )

        table = profile_space(
            space_of(registry, found), device, exporter, options,
            rng=rng, folder=Path(folder), partial=partial, notify=notify, tell=lambda line: click.echo(line, err=True),
        )  # fmt: skip
        table.write(output)
    Partial(partial, table.device, found).remove()
    click.echo(f"{output}: {len(table.grids)} layers, {table.settings['points']} points")
    if table.settings["drift"] > options.busy:
        click.echo(
            f"warning: the machine was busy or changed its clock: a layer that was timed throughout varied by "
            f"{table.settings['drift']:.0%}; profile again on an idle machine for a table to rely on",
            err=True,
        )


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
    from jcw_core.errors import ArchitectureError
    from jcw_core.space.space import SearchSpace
    from jcw_latency.commands.arguments import read_architectures
    from jcw_latency.table.predictor import LatencyPredictor
    from jcw_latency.table.table import LatencyTable

    read = LatencyTable.read(table)
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
    if as_json:
        click.echo(json.dumps([_row(label, cost, layers=layers) for label, cost in costs.items()]))
        return
    for label, cost in costs.items():
        total = cost.total_ms
        click.echo(f"{label}: {total:.4f} ms")
        for name, ms in (*cost.layers.items(), ("overhead", cost.overhead_ms)) if layers else ():
            click.echo(f"  {name:32}{ms:10.4f} ms{ms / total if total else 0:8.1%}")


def _row(label: str, cost: Breakdown, *, layers: bool) -> dict[str, Any]:
    row = {"architecture": label, "latency_ms": cost.total_ms}
    return {**row, "layers": cost.layers, "overhead_ms": cost.overhead_ms} if layers else row

"""``jcw profile``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jcw_core.backbones.family import WIDTHS
from jcw_core.cli.network_options import outputs_option, shape_option
from jcw_core.cli.text import echo, note
from jcw_latency.commands.arguments import (
    PATH,
    assignments,
    combined,
    device_options,
    network_of,
    open_device,
    progress_shown,
    seed_of,
    space_of,
)

if TYPE_CHECKING:
    from jcw_core.registry import Registry
    from jcw_core.space.space import SearchSpace
    from jcw_latency.devices.guarded import GuardedDevice
    from jcw_latency.options import LatencyOptions
    from jcw_latency.table.table import LatencyTable

_OPTIONS = (
    click.option("--device", "device_name", required=True, help="Device to measure on; see `jcw plugins`."),
    device_options,
    click.option(
        "-o", "--output", type=PATH, default="table.npz", show_default=True, help="Latency table to write."
    ),
    shape_option,
    outputs_option,
    click.option(
        "--input-size", default=224, show_default=True, help="Height and width of a backbone's input."
    ),
    click.option("--classes", "num_classes", default=1000, show_default=True, help="Classes of a backbone."),
    click.option(
        "--width",
        default=1.0,
        show_default=True,
        type=click.FloatRange(*WIDTHS),
        help="Factor on all channels of a backbone.",
    ),
    click.option("--in-channels", default=3, show_default=True, help="Input channels of a backbone."),
    click.option(
        "--adaptive",
        is_flag=True,
        help="Start from coarse grids and refine them only where points that were held out are predicted worse "
        "than adaptive_tolerance; up to 700 points a layer, usually far fewer. Excludes the keys widths, densities "
        "and placement, which place the points of full grids.",
    ),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Key of [latency], e.g. rounds=50."
    ),
    seed_of("the order of visits"),
)


@click.command()
@click.argument("network")
@combined(_OPTIONS)
@click.pass_obj
def profile(
    registry: Registry,
    /,
    network: str,
    device_name: str,
    device_options: tuple[str, ...],
    output: Path,
    adaptive: bool,
    settings: tuple[str, ...],
    seed: int,
    shape: tuple[int, ...] | None,
    outputs: tuple[str, ...],
    **built: Any,
) -> None:
    """Time every layer of NETWORK on a device, into a table.

    NETWORK is a backbone's name or a file: a network as JSON (.json), or a model as ONNX (.onnx), which needs the extra [onnx].

    An interrupted profile continues where it stopped when the same command is run again. Until then its timings
    lie in OUTPUT.partial, whatever else is profiled into the same file.
    """
    from jcw_core.options import parse
    from jcw_core.space.whole import fixed_layers, in_words, unpruned_layers
    from jcw_latency.devices.guarded import GuardedDevice
    from jcw_latency.fidelity.verdict import judge
    from jcw_latency.options import LatencyOptions

    settings += ("adaptive=true",) if adaptive else ()
    options = parse(LatencyOptions, *assignments("--set", settings))
    space = space_of(registry, network_of(registry, network, shape, outputs, **built))
    opened = open_device(registry, device_name, device_options)
    device = GuardedDevice.of(opened, options.timeout, registry.exporters)
    table = _measured(registry, space, device, options, output, seed)
    echo(f"{output}: {len(table.grids)} layers, {table.settings['points']} points")
    for line in in_words(fixed_layers(space.network), unpruned_layers(space.network)):
        note(f"kept whole: {line}")
    note(str(judge(table, again=f"jcw profile {network} ... --set ")))


def _measured(
    registry: Registry,
    space: SearchSpace,
    device: GuardedDevice,
    options: LatencyOptions,
    output: Path,
    seed: int,
) -> LatencyTable:
    """Measure and write the table; until it is safe, its timings lie beside it."""
    import tempfile

    import numpy as np

    from jcw_core.errors import continues_from
    from jcw_core.files import require_writable
    from jcw_latency.profiling.checkpoint import ProfileCheckpoint
    from jcw_latency.profiling.profile import profile_space

    # Before minutes of measuring.
    require_writable(output)
    checkpoint = output.with_name(f"{output.name}.partial")
    require_writable(checkpoint)
    with (
        continues_from(checkpoint),
        progress_shown(registry),
        tempfile.TemporaryDirectory(prefix="jcw-profile-") as folder,
    ):
        table = profile_space(
            space, device, options,
            rng=np.random.default_rng(seed), folder=Path(folder), checkpoint=checkpoint, notify=registry.progress,
        )  # fmt: skip
        table.save(output)
    ProfileCheckpoint(checkpoint, table.device, space.network).remove()
    return table

"""``jcw plugins``, ``jcw networks`` and ``jcw recipe``: what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from jcw_core.backbones.family import WIDTHS
from jcw_core.cli.network_options import outputs_option, shape_option
from jcw_core.cli.text import as_json, echo_json
from jcw_core.errors import JcwError
from jcw_core.names import printable
from jcw_core.plugin_checks import build_network
from jcw_core.registry import PluginFamily, Registry

if TYPE_CHECKING:
    from jcw_core.network.graph import Network


@click.command()
@as_json
@click.pass_obj
def plugins(registry: Registry, as_json: bool) -> None:
    """List what is installed, by kind, and what failed to load."""
    for family in _families(registry):
        if as_json:
            origins = family.origins
            echo_json({"kind": family.kind, "name": n, "distribution": origins[n]} for n in sorted(family))
            continue
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


def _families(registry: Registry) -> tuple[PluginFamily[Any], ...]:
    return (
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


@click.command()
@click.argument("network", required=False)
@click.option("--input-size", default=224, show_default=True, help="Height and width of the input in pixels.")
@click.option("--classes", default=1000, show_default=True, help="Number of classes.")
@click.option(
    "--width", default=1.0, show_default=True, type=click.FloatRange(*WIDTHS), help="Factor on all channels."
)
@shape_option
@outputs_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON object per backbone instead; with NETWORK, that network as a file that recipes and profiles take.",
)
@click.pass_obj
def networks(
    registry: Registry,
    network: str | None,
    input_size: int,
    classes: int,
    width: float,
    shape: tuple[int, ...] | None,
    outputs: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the backbones, or the layers of one.

    Beside each backbone are its MACs, parameters and search dimensions.

    With NETWORK, a backbone, a file (.json, .onnx) or PACKAGE.MODULE:FUNCTION that returns a torch module (of what --shape says,
    else of one image of 3 x 224 x 224), list its layers, what a search may take from each, and why some stay whole.
    """
    from jcw_core.cli.network_layers import brought_by_name, describe

    def build(backbone: str) -> Network:
        return build_network(
            registry.backbones[backbone], num_classes=classes, width=width, input_size=input_size
        )

    if network is not None:
        made = None if network in registry.backbones else brought_by_name(network, shape, outputs)
        if made is None and outputs:
            raise JcwError(
                f"--outputs: {network} is a backbone, expected an ONNX file or a torch module; leave them out"
            )
        made = made or build(network)
        for line in (made.to_json(),) if as_json else describe(made):
            click.echo(line)
        return
    rows = (_size(registry, backbone, build(backbone)) for backbone in sorted(registry.backbones))
    if as_json:
        echo_json(rows)
    else:
        _print_sizes(rows)


def _size(registry: Registry, backbone: str, network: Network) -> dict[str, Any]:
    """What a list says of a backbone: MACs of one image, parameters, groups of channels and layers that a search may cut."""
    from jcw_core.space.space import SearchSpace

    space = SearchSpace.of(network, defaults=registry.backbones[backbone].bounds)
    groups = sum(v.kind == "width" for v in space.variables)
    sizes = {"macs": network.macs, "parameters": network.parameters}
    return {"network": backbone, **sizes, "groups": groups, "prunable": space.dimensions - groups}


def _print_sizes(rows: Iterator[dict[str, Any]]) -> None:
    click.echo(f"{'network':16}{'MACs':>16}{'parameters':>14}{'groups':>8}{'prunable':>10}")
    for row in rows:
        sizes = f"{row['macs']:>16,}{row['parameters']:>14,}{row['groups']:>8}{row['prunable']:>10}"
        click.echo(f"{row['network']:16}{sizes}")


@click.command()
@as_json
@click.pass_obj
def recipe(registry: Registry, as_json: bool) -> None:
    """Print every key that a recipe may have, with defaults."""
    from jcw_core.recipe.reference import describe, rows

    if as_json:
        echo_json(rows(registry))
    else:
        click.echo(describe(registry))

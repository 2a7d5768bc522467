"""What several commands take."""

from __future__ import annotations

from pathlib import Path

import click

PATH = click.Path(path_type=Path)

device_options = click.option(
    "--option",
    "device_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the device; may be repeated.",
)
network_name = click.option(
    "--network", "network_name", help="One of the table's networks, if it has several."
)


def image_shape(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[int, ...] | None:
    """``--shape 1,3,224,224`` as numbers; an error names the option."""
    if text is None:
        return None
    sizes = text.replace("x", ",").split(",")
    if len(sizes) != 4 or not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise click.BadParameter(f"{text!r} is not four sizes, such as 1,3,224,224")
    return tuple(map(int, sizes))

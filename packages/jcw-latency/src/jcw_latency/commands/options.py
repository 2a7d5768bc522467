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

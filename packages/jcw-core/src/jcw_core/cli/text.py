"""What commands print: text that files, devices and plugins may have a part in reaches no terminal as it is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from jcw_core.cli.quiet import is_quiet
from jcw_core.names import printable

if TYPE_CHECKING:
    from rich.table import Table

_WIDE = 100_000
"""Columns of what is no terminal: nothing is wrapped or cut there."""

as_json = click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line instead.")
"""The option of commands that list something."""

as_json_object = click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead.")
"""The option of commands that tell of one thing."""


def echo(text: str, *, err: bool = False) -> None:
    """Print a line, or several, with backslash escapes for what a terminal would obey."""
    click.echo(printable(text), err=err)


def note(text: str) -> None:
    """Tell the user something on standard error, unless the command is quiet."""
    if not is_quiet():
        echo(text, err=True)


def echo_json(rows: Iterable[dict[str, Any]]) -> None:
    """Print each row as a JSON object on a line of its own."""
    for row in rows:
        click.echo(json.dumps(row, allow_nan=False))


def print_table(table: Table) -> None:
    """Print a table; its cells are words, not markup, and escaped as in ``echo``."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    parts = [Segment(printable(part.text), part.style) for part in console.render(table)]
    console.print(Segments(parts), soft_wrap=True, end="")

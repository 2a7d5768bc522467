"""What commands print: text that files, devices and plugins may have a part in reaches no terminal as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jcw_core.names import printable

if TYPE_CHECKING:
    from rich.table import Table


def echo(text: str, *, err: bool = False) -> None:
    """Print a line, or several, with backslash escapes for what a terminal would obey."""
    click.echo(printable(text), err=err)


def print_table(table: Table) -> None:
    """Print a table; its cells are words, not markup, and escaped as in ``echo``."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console(markup=False, emoji=False)
    parts = [Segment(printable(part.text), part.style) for part in console.render(table)]
    console.print(Segments(parts), soft_wrap=True, end="")

"""Whether a command was asked to be quiet."""

from __future__ import annotations

import click

_KEY = "jcw_core.cli.quiet"


def set_quiet(context: click.Context, quiet: bool) -> None:
    """Note it for the command of ``context`` and those below it."""
    context.meta[_KEY] = quiet


def is_quiet() -> bool:
    """Whether the command that runs in this thread was asked to be quiet."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(_KEY))

"""``jcw --quiet`` and ``jcw --verbose``: how much is said beside results and errors."""

from __future__ import annotations

import warnings

import click

from jcw_core.cli.quiet import set_quiet
from jcw_core.errors import JcwWarning

OPTIONS = (
    click.Option(
        ["-q", "--quiet"], is_flag=True, help="Print results and errors only, no progress and no notes."
    ),
    click.Option(
        ["-v", "--verbose"], count=True, help="Log to standard error what is done; -vv logs more of it."
    ),
)
"""Options of ``jcw`` itself, which stand before the command."""


@click.pass_context
def apply(context: click.Context, quiet: bool, verbose: int) -> None:
    """What the options mean, until the command has ended."""
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other; give one of them")
    set_quiet(context, quiet)
    if quiet:
        context.with_resource(warnings.catch_warnings())
        warnings.simplefilter("ignore", JcwWarning)
    if verbose:
        from jcw_core.cli.log import shown

        context.with_resource(shown(verbose))

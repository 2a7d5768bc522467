"""The ``jcw`` command: a click group whose commands are plugins."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from io import StringIO
from typing import TextIO

import click

from jcw_core.cli.background import leave
from jcw_core.cli.faults import fault
from jcw_core.cli.group import CommandGroup
from jcw_core.cli.interrupts import raise_interrupts
from jcw_core.cli.text import echo
from jcw_core.cli.verbosity import OPTIONS, apply
from jcw_core.errors import JcwError, JcwWarning
from jcw_core.registry import Registry


def build(registry: Registry) -> click.Group:
    """The command with everything that is installed."""
    group = CommandGroup(
        "jcw",
        help="Joint channel and weight pruning: from a network, data, a device and a latency budget to "
        "models whose accuracy and latency are measured.",
        params=list(OPTIONS),
        callback=apply,
        context_settings={"obj": registry, "help_option_names": ["-h", "--help"]},
    )
    for name, command in registry.commands.items():
        group.add_command(command, name)
    return click.version_option(package_name="jcw-core", prog_name="jcw")(group)


def main() -> None:
    """Run the command; what the user can put right is one line and exit status 2."""
    leave(_run())


def _run() -> int:
    """The exit status."""
    for stream in (sys.stdout, sys.stderr):
        # Bytes of a path that are no characters can still be shown.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    _show_warnings_as_lines()
    try:
        command = build(Registry())
        raise_interrupts()
        status = command.main(prog_name="jcw", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        shown = StringIO()
        error.show(shown)
        echo(shown.getvalue().rstrip(), err=True)
    except JcwError as error:
        is_named = not error.page or error.page in str(error)
        _say(str(error) if is_named else f"{error} (see {error.page})", error)
    except (KeyboardInterrupt, click.Abort) as error:
        # Click turns the one into the other.
        _say("interrupted", error.__cause__ or error)
        return 130
    except BrokenPipeError:
        return 1
    except OSError as error:  # a full disk, a folder that may not be written
        _say(f"{error.filename}: {error.strerror}" if error.filename else str(error), error)
    except MemoryError as error:
        _say(f"out of memory; {str(error) or 'take something smaller'}", error)
    except RecursionError as error:
        _say("what was given is nested too deeply", error)
    except Exception as error:
        _say(fault(error), error)
    return 2


def _show_warnings_as_lines() -> None:
    """Print what is meant for users without the file and the line of the code that says it."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, JcwWarning):
            echo(f"jcw: warning: {' '.join(str(message).split())}", err=True)
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def _say(message: str, error: BaseException) -> None:
    """Print an error and its notes as one line."""
    text = "; ".join([message, *getattr(error, "__notes__", [])])
    echo(f"jcw: {' '.join(text.split())}", err=True)

"""The ``jcw`` command: a click group whose commands are plugins."""

from __future__ import annotations

import sys

import click

from jcw_core.errors import JcwError
from jcw_core.registry import Registry


class _Group(click.Group):
    """Names the package to install for a command that is not there."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            package = PROVIDERS.get(args[0])
            raise click.UsageError(
                f"{error.message} Install {package}." if package else error.message, ctx
            ) from None


PROVIDERS = {
    "profile": "jcw-latency",
    "predict": "jcw-latency",
    "check": "jcw-latency",
    "table": "jcw-latency",
    "kernels": "jcw-kernels",
}
"""Which package to install for a command that is not there."""


def build(registry: Registry) -> click.Group:
    """The command with everything that is installed."""
    group = _Group(
        "jcw",
        help="Joint channel and weight pruning: from a network, data, a device and a latency budget to "
        "models whose accuracy and latency are measured.",
        context_settings={"obj": registry, "help_option_names": ["-h", "--help"]},
    )
    for name, command in registry.commands.items():
        group.add_command(command, name)
    return click.version_option(package_name="jcw-core", prog_name="jcw")(group)


def main() -> None:
    """Run the command; what the user can put right is one line and exit status 2."""
    try:
        registry = Registry()
        status = build(registry).main(prog_name="jcw", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except JcwError as error:
        click.echo(f"jcw: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("jcw: interrupted; the same command continues from here", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that may not be written
        click.echo(f"jcw: {error}", err=True)
        sys.exit(2)

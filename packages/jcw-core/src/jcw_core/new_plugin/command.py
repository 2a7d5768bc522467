"""``jcw new-plugin``."""

from __future__ import annotations

from pathlib import Path

import click

from jcw_core.new_plugin.kinds import KINDS
from jcw_core.registry import Registry


@click.command("new-plugin")
@click.argument("name")
@click.option("--kind", type=click.Choice(list(KINDS)), required=True, help="What the plugin is.")
@click.make_pass_decorator(Registry, ensure=True)
def new_plugin(registry: Registry, name: str, kind: str) -> None:
    """Write a package with a plugin to begin with.

    NAME is that of the package, e.g. jcw-lottery, and of the folder that is made. The plugin in it works as it is, and is
    called the same without jcw-.
    """
    from jcw_core.cli.text import echo
    from jcw_core.errors import PluginError
    from jcw_core.new_plugin.names import checked
    from jcw_core.new_plugin.package import write

    folder = Path(name)
    names = checked(name, kind, registry)
    try:
        write(folder, kind, names)
    except FileExistsError:
        raise PluginError(f"{folder}: is there already; give another name") from None
    echo(
        f"{folder}: {KINDS[kind].what.lower()} called {names.plugin}; change {folder}/src/{names.package}/{kind}.py"
    )
    echo(f"pip install -e './{folder}[test]' && pytest {folder}")

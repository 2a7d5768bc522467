"""``jcw watch``."""

from __future__ import annotations

from pathlib import Path

import click

from jcw_core.registry import Registry

_PORT = 8765


@click.command()
@click.argument("run_directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Of 127.0.0.1; 0 for any that is free.",
)
@click.option("--open/--no-open", "opens", default=False, help="Open the page in a browser.")
@click.make_pass_decorator(Registry, ensure=True)
def watch(registry: Registry, run_directory: Path, port: int, opens: bool) -> None:
    """Show a run in the browser while it goes on.

    RUN is its folder, e.g. runs/quickstart. The page has the stages, the front as it grows, the models as they are
    trained, and in the end the report; it is for this machine alone. Ctrl-C ends it, and does not touch the run.
    """
    from contextlib import suppress
    from functools import partial

    from jcw_core.cli.background import start
    from jcw_core.cli.text import echo
    from jcw_core.errors import JcwError
    from jcw_core.watch.look import require_run
    from jcw_core.watch.pages import Pages
    from jcw_core.watch.server import ADDRESS, Server

    require_run(run_directory)
    pages = Pages(run_directory, registry.stages)
    try:
        server = Server(port, pages.by_path)
    except OSError as error:
        free = "give another, or --port 0 for any that is free"
        raise JcwError(f"port {port} of {ADDRESS} cannot be used ({error.strerror}); {free}") from None
    with server, suppress(KeyboardInterrupt):
        echo(f"{run_directory}: {server.url}, until Ctrl-C")
        if opens:
            start(partial(_open, server.url))
        server.serve_forever()


def _open(url: str) -> None:
    """Open a browser, of which some come back only when they are closed."""
    import webbrowser

    from jcw_core.cli.text import note

    if not webbrowser.open(url):
        note(f"note: no browser was found; open {url} in one")

"""``jcw completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog='bash, zsh: eval "$(jcw completion bash)" in .bashrc or .zshrc (with zsh for bash). '
    "fish: jcw completion fish > ~/.config/fish/completions/jcw.fish"
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes jcw."""
    script = get_completion_class(shell)
    assert script is not None
    root = ctx.find_root()
    click.echo(script(root.command, {}, "jcw", "_JCW_COMPLETE").source())

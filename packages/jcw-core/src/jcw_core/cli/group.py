"""``jcw`` itself: its commands in the order of what one wants to do, and what to type instead of one that is not there."""

from __future__ import annotations

import click

from jcw_core import providers
from jcw_core.names import or_nearest
from jcw_core.registry import Registry

SECTIONS = {
    "From a network to models": ("compress", "init", "run", "watch", "show"),
    "Devices": ("profile", "predict", "check", "table"),
    "Models and searches": ("predict-image", "kernels", "search"),
    "What there is": ("networks", "plugins", "recipe", "doctor", "completion"),
    "Your own plugins": ("new-plugin",),
}
"""Headings of ``jcw --help``, and the commands under each; what plugins add comes last."""


class CommandGroup(click.Group):
    """Lists commands by purpose; for one that is not there it names the package, or the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an error says what to do instead."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                f"{error.message.rstrip('.')}{self._instead(args[0], ctx.obj)}", ctx
            ) from None

    def _instead(self, name: str, registry: object) -> str:
        if name in providers.COMMANDS:
            return f"; install {providers.COMMANDS[name]}"
        if isinstance(registry, Registry) and name in registry.stages:
            return f"; it is a stage of runs: jcw run RECIPE --until {name}"
        return or_nearest(name, self.commands, "jcw --help lists them")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each purpose, in one column of descriptions."""
        listed = {name for names in SECTIONS.values() for name in names}
        others = sorted(set(self.commands) - listed)
        width = max(map(len, self.commands), default=0)
        for heading, names in (*SECTIONS.items(), ("Other commands", others)):
            # Two spaces before a name, and two after the longest.
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(formatter.width - width - 4))
                for name in names
                if name in self.commands and not self.commands[name].hidden
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

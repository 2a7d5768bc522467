"""What a new package and the plugin in it are called."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from jcw_core.errors import PluginError
from jcw_core.new_plugin.kinds import KINDS
from jcw_core.plugin_checks import REPORT_KEYS

if TYPE_CHECKING:
    from jcw_core.registry import Registry

_PREFIX = "jcw-"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one package.

    Args:
        distribution: as ``pip`` has it, in small letters with hyphens.
    """

    distribution: str

    @property
    def package(self) -> str:
        """As Python imports it."""
        return self.distribution.replace("-", "_")

    @property
    def plugin(self) -> str:
        """As recipes call what it registers: without ``jcw-``."""
        return self.distribution.removeprefix(_PREFIX)


def checked(distribution: str, kind: str, registry: Registry) -> Names:
    """The names of a package, each of which is free.

    Raises:
        PluginError: they are no names, or something that is installed has one of them.
    """
    names = Names(distribution)
    if not _NAME.fullmatch(distribution) or keyword.iskeyword(names.package):
        raise PluginError(
            f"{distribution!r} names no package; take small letters and digits with hyphens between, as jcw-lottery"
        )
    if names.package in sys.stdlib_module_names or find_spec(names.package) is not None:
        raise PluginError(f"a module {names.package!r} is installed already; give another name")
    if names.plugin in _taken(kind, registry):
        raise PluginError(f"{names.plugin!r} is the name of another {kind}, or of its file; give another")
    return names


def _taken(kind: str, registry: Registry) -> set[str]:
    family = KINDS[kind].family
    taken = set(getattr(registry, family)) if family else set()
    if kind == "stage":
        taken |= {made.removesuffix(".json") for stage in registry.stages.values() for made in stage.makes}
    return taken | set(REPORT_KEYS) if kind == "report" else taken

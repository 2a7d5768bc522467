"""The registry: plugins by family and name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeVar

import pluggy

from jcw_core import hookspecs, providers
from jcw_core.errors import PluginError
from jcw_core.plugin_checks import check_distinct, check_members
from jcw_core.protocols import (
    Backbone,
    DatasetPlugin,
    DevicePlugin,
    Exporter,
    Importance,
    Objective,
    Progress,
    ReportSection,
    Selection,
    Stage,
)
from jcw_core.ranks import Ranks


class Named(Protocol):
    """Anything that a hook returns."""

    @property
    def name(self) -> str | None:
        """What users call it; click allows commands without one, which is no use here."""


T = TypeVar("T", bound=Named)


class PluginFamily(Mapping[str, T]):
    """The plugins of one family by name; an unknown name says what there is."""

    def __init__(
        self, kind: str, members: Mapping[str, T], origins: Mapping[str, str], failures: Mapping[str, str]
    ) -> None:
        self.kind = kind
        self.origins = origins
        self._members = members
        self._failures = failures

    def __getitem__(self, name: str) -> T:
        if name in self._members:
            return self._members[name]
        package = providers.PLUGINS.get(name)
        hint = f"; install {package}" if package else ""
        if self._failures:
            hint += f"; `jcw plugins` tells why these failed to load: {', '.join(self._failures)}"
        known = ", ".join(sorted(self._members)) or "none"
        # No page: hooks.md is for those who write one, and what there is stands here.
        raise PluginError(f"unknown {self.kind} {name!r}{hint}; there is: {known}", see="")

    def get(self, name: str, default: Any = None) -> Any:
        """The plugin of that name, ``default`` where there is none: a mapping's own asks for a ``KeyError``."""
        return self._members.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


class Registry:
    """All plugins that are installed, and those that failed to load.

    Args:
        plugins: objects to register beside the installed ones, by name.
        installed: look up the entry-point group ``jcw``.
    """

    def __init__(self, plugins: Mapping[str, object] | None = None, *, installed: bool = True) -> None:
        self.failures: dict[str, str] = {}
        """Why each plugin that does not work was left out, by its name."""
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._origin: dict[str, str] = {}
        for point in _entry_points() if installed else ():
            self._load(point)
        for name, plugin in (plugins or {}).items():
            self.add(name, plugin)

    def add(self, name: str, plugin: object, origin: str | None = None) -> None:
        """Register one plugin; a broken one is recorded in ``failures``."""
        self._origin[name] = origin or name
        with self._noting(name):
            try:
                self._manager.register(plugin, name)
                self._manager.check_pending()
            except BaseException:
                with suppress(Exception):
                    self._manager.unregister(name=name)
                raise

    def _load(self, point: EntryPoint) -> None:
        distribution = point.dist.name if point.dist else point.value
        with self._noting(f"{point.name} ({distribution})"):
            plugin = point.load()
            self.add(f"{distribution}:{point.name}", plugin, distribution)

    @contextmanager
    def _noting(self, plugin: str, hook: str = "") -> Iterator[None]:
        """Note why a plugin fails while it is imported, registered or asked by ``hook``.

        It may fail in any way, and takes no other down. What it prints is kept from standard output,
        which is for what the command was asked for.
        """
        try:
            with redirect_stdout(sys.stderr):
                yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = f"{hook}: {_reason(error)}" if hook else _reason(error)
            before = self.failures.get(plugin)
            self.failures[plugin] = f"{before}; {reason}" if before else reason

    def _family(self, kind: str, hook: str) -> PluginFamily[Any]:
        members: dict[str, Named] = {}
        origins: dict[str, str] = {}
        for name, member, origin in self._collect(hook):
            if name in members:
                raise PluginError(
                    f"two plugins claim the {kind} {name!r}: {origins[name]} and {origin}; uninstall one"
                )
            members[name], origins[name] = member, origin
        return PluginFamily(kind, members, origins, self.failures)

    def _collect(self, hook: str) -> Iterable[tuple[str, Named, str]]:
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            origin = self._origin[implementation.plugin_name]
            found: Iterable[Named] = ()
            with self._noting(implementation.plugin_name, hook):
                found = check_members(hook, implementation.function())
            for member in found:
                yield str(member.name), member, origin

    @cached_property
    def backbones(self) -> PluginFamily[Backbone]:
        """Network families."""
        return self._family("backbone", "jcw_register_backbones")

    @cached_property
    def devices(self) -> PluginFamily[DevicePlugin]:
        """Kinds of device."""
        return self._family("device", "jcw_register_devices")

    @cached_property
    def objectives(self) -> PluginFamily[Objective]:
        """Objectives of a search."""
        return self._family("objective", "jcw_register_objectives")

    @cached_property
    def selections(self) -> PluginFamily[Selection]:
        """Selection strategies."""
        return self._family("selection strategy", "jcw_register_selections")

    @cached_property
    def importances(self) -> PluginFamily[Importance]:
        """Criteria of channel importance."""
        return self._family("importance", "jcw_register_importances")

    @cached_property
    def datasets(self) -> PluginFamily[DatasetPlugin]:
        """Kinds of dataset."""
        return self._family("dataset", "jcw_register_datasets")

    @cached_property
    def exporters(self) -> PluginFamily[Exporter]:
        """File formats for models."""
        return self._family("exporter", "jcw_register_exporters")

    @cached_property
    def stages(self) -> PluginFamily[Stage]:
        """Steps of a run."""
        family = self._family("stage", "jcw_register_stages")
        check_distinct(family, family.origins)
        return family

    @cached_property
    def report_sections(self) -> PluginFamily[ReportSection]:
        """Sections of the report."""
        return self._family("report section", "jcw_register_report")

    @cached_property
    def commands(self) -> PluginFamily[Any]:
        """Commands of ``jcw``."""
        return self._family("command", "jcw_register_commands")

    def join_ranks(self) -> Ranks:
        """The processes that were started to work on a run together; this one alone unless a plugin knows of others."""
        found: Ranks | None = self._manager.hook.jcw_join_ranks()
        return found or Ranks()

    def progress(self, event: Progress) -> None:
        """Tell every listener how far a stage has come."""
        self._manager.hook.jcw_progress(event=event)


def _entry_points() -> list[EntryPoint]:
    """Entry points in an order that does not depend on the file system; the core comes first."""
    points = entry_points(group=hookspecs.PROJECT)
    return sorted(points, key=lambda p: (p.name != "core", p.dist.name if p.dist else "", p.name))


def _reason(error: BaseException) -> str:
    """What went wrong, in the words of an error that a plugin may have made itself."""
    if isinstance(error, (PluginError, pluggy.PluginValidationError)):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__

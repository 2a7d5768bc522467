"""Every hook of the project. Plugins implement those they need with ``hookimpl``.

A plugin is a module or object under the entry-point group ``jcw``. Hooks of one kind are called in
the order in which pluggy registered the plugins; no hook depends on that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

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

PROJECT = "jcw"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def jcw_register_backbones() -> Sequence[Backbone]:
    """Return network families, for ``[network] backbone``.

    Called once, when a backbone is first looked up. May raise anything; the plugin is then reported
    by name and left out.
    """
    raise NotImplementedError


@hookspec
def jcw_register_devices() -> Sequence[DevicePlugin]:
    """Return kinds of device, for ``[device] name``.

    Called once, when a device is first looked up. Connect in ``open``, not here.
    """
    raise NotImplementedError


@hookspec
def jcw_register_objectives() -> Sequence[Objective]:
    """Return objectives, for ``[search] objectives``.

    Called once, when the search begins or plugins are listed. Load data in ``open``, not here.
    """
    raise NotImplementedError


@hookspec
def jcw_register_selections() -> Sequence[Selection]:
    """Return selection strategies of the plain search, for ``[search] selection``.

    Called once, when a strategy is first looked up.
    """
    raise NotImplementedError


@hookspec
def jcw_register_importances() -> Sequence[Importance]:
    """Return criteria of channel importance, for ``[supernet] importance``.

    Called once, when a criterion is first looked up.
    """
    raise NotImplementedError


@hookspec
def jcw_register_datasets() -> Sequence[DatasetPlugin]:
    """Return kinds of dataset, for ``[data] name``.

    Called once, when a dataset is first looked up. Read files in ``open``, not here.
    """
    raise NotImplementedError


@hookspec
def jcw_register_exporters() -> Sequence[Exporter]:
    """Return file formats for models, for ``[export] formats``.

    Called once, when a format is first looked up.
    """
    raise NotImplementedError


@hookspec
def jcw_register_stages() -> Sequence[Stage]:
    """Return steps of ``jcw run``, ordered by what they need and make.

    Called once, before a recipe is read: a stage also says which recipe table it owns.
    """
    raise NotImplementedError


@hookspec
def jcw_register_report() -> Sequence[ReportSection]:
    """Return sections of the report, drawn in their ``order``.

    Called once, when the report is written.
    """
    raise NotImplementedError


@hookspec
def jcw_register_commands() -> Sequence[click.Command]:
    """Return commands for ``jcw``.

    Called whenever ``jcw`` starts, so import what a command does inside its function.
    """
    raise NotImplementedError


@hookspec
def jcw_progress(event: Progress) -> None:
    """A generation or an epoch ended, a layer or a model was measured.

    Called in the process and thread that does the work; return soon. What it raises ends the run.
    """


@hookspec(firstresult=True)
def jcw_join_ranks() -> Ranks | None:
    """Return the processes that work on a run together, or None where this one was started alone.

    Called once, when ``jcw run`` starts, before its recipe is read; the first plugin that returns something is the one
    that was meant. Raise ``RankError`` where the others cannot be reached.
    """
    raise NotImplementedError

"""What jcw-search registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.hookspecs import hookimpl

if TYPE_CHECKING:
    from jcw_core.protocols import Objective, ReportSection, Selection, Stage


@hookimpl
def jcw_register_selections() -> Sequence[Selection]:
    """``uniform`` and ``nsga2``."""
    from jcw_search.selection import Nsga2Selection, UniformSelection

    return [UniformSelection(), Nsga2Selection()]


@hookimpl
def jcw_register_objectives() -> Sequence[Objective]:
    """``macs``, ``weights`` and ``bytes``."""
    from jcw_search.objectives import COSTS

    return COSTS


@hookimpl
def jcw_register_stages() -> Sequence[Stage]:
    """The search."""
    from jcw_search.stages import SearchStage

    return [SearchStage()]


@hookimpl
def jcw_register_report() -> Sequence[ReportSection]:
    """The search's part of the report."""
    from jcw_search.report_section import SearchSection

    return [SearchSection()]

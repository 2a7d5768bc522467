"""What jcw-retrain registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

    from jcw_core.protocols import ReportSection, Stage


@hookimpl
def jcw_register_stages() -> Sequence[Stage]:
    """Retraining."""
    from jcw_retrain.stages import RetrainStage

    return [RetrainStage()]


@hookimpl
def jcw_register_report() -> Sequence[ReportSection]:
    """What each phase of training did to the error, how ADMM has converged, and whether the search ranked as training does."""
    from jcw_retrain.fidelity_section import FidelitySection
    from jcw_retrain.phase_errors import PhasesSection
    from jcw_retrain.report_section import AdmmSection

    return [PhasesSection(), AdmmSection(), FidelitySection()]


@hookimpl
def jcw_register_commands() -> Sequence[click.Command]:
    """``search fidelity``, which trains networks."""
    from jcw_retrain import commands

    return [commands.search]

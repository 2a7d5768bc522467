"""The hooks of jcw-latency: its devices, objective, stages, report sections and commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

    from jcw_core.protocols import DevicePlugin, Objective, ReportSection, Stage


@hookimpl
def jcw_register_devices() -> Sequence[DevicePlugin]:
    """A table that was measured before, and machines that are reached by ssh or adb."""
    from jcw_latency.devices.adb import AdbPlugin
    from jcw_latency.devices.recorded import RecordedPlugin
    from jcw_latency.devices.ssh import SshPlugin

    return [RecordedPlugin(), SshPlugin(), AdbPlugin()]


@hookimpl
def jcw_register_objectives() -> Sequence[Objective]:
    """Predicted latency."""
    from jcw_latency.objective import LatencyObjective

    return [LatencyObjective()]


@hookimpl
def jcw_register_stages() -> Sequence[Stage]:
    """Profiling before the search, measuring after the export."""
    from jcw_latency.stages import MeasureStage, ProfileStage

    return [ProfileStage(), MeasureStage()]


@hookimpl
def jcw_register_report() -> Sequence[ReportSection]:
    """Milliseconds per layer, and how good the predictions are."""
    from jcw_latency.fidelity.report_section import FidelitySection
    from jcw_latency.layer_times import LayerTimesSection

    return [LayerTimesSection(), FidelitySection()]


@hookimpl
def jcw_register_commands() -> Sequence[click.Command]:
    """``profile``, ``predict``, ``check`` and ``table``."""
    from jcw_latency.commands.check import check
    from jcw_latency.commands.predict import predict
    from jcw_latency.commands.profile import profile
    from jcw_latency.commands.table import table

    return [profile, predict, check, table]

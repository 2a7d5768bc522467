"""What jcw-kernels registers: device ``host``, exporter ``jcw``, stage ``evaluate``, commands ``jcw kernels``, ``jcw predict-image``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

    from jcw_core.protocols import DevicePlugin, Exporter, Stage


@hookimpl
def jcw_register_devices() -> Sequence[DevicePlugin]:
    """The machine itself, as ``host``."""
    from jcw_kernels.host import HostPlugin

    return [HostPlugin()]


@hookimpl
def jcw_register_exporters() -> Sequence[Exporter]:
    """``model.jcw``, as ``jcw``."""
    from jcw_kernels.exporter import JcwExporter

    return [JcwExporter()]


@hookimpl
def jcw_register_stages() -> Sequence[Stage]:
    """The error of exported models on the test images."""
    from jcw_kernels.stages import EvaluateStage

    return [EvaluateStage()]


@hookimpl
def jcw_register_commands() -> Sequence[click.Command]:
    """``jcw kernels`` and ``jcw predict-image``."""
    from jcw_kernels.commands import kernels
    from jcw_kernels.predict_image import predict_image

    return [kernels, predict_image]

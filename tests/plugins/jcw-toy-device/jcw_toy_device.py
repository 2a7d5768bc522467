"""A device that computes what others measure: a fixed rate and an overhead per layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.hookspecs import hookimpl
from jcw_core.network import LayerProblem
from jcw_core.options import option
from jcw_core.protocols import DeviceInfo


@dataclass(frozen=True, slots=True)
class Options:
    """Keys of ``[device]`` beside ``name``."""

    gigamacs: float = option(1.0, low=1e-6, help="multiply-accumulates per nanosecond")


class Arithmetic:
    """Registered as ``arithmetic``."""

    name = "arithmetic"
    options = Options

    def open(self, options: Options) -> ArithmeticDevice:
        """Nothing to connect to."""
        return ArithmeticDevice(options)


class ArithmeticDevice:
    """An open device; it cannot run models."""

    model_format = ""

    def __init__(self, options: Options) -> None:
        self._seconds_per_mac = 1e-9 / options.gigamacs

    def describe(self) -> DeviceInfo:
        """Say what is being measured on."""
        return DeviceInfo("arithmetic", cpu="pencil", isa="paper", threads=1, versions={"toy": "1.0"})

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        """(rounds, problems) seconds, the same in every round."""
        return np.tile([1e-6 + p.macs * self._seconds_per_mac for p in problems], (rounds, 1))

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        """Raise ``DeviceError``: there is nothing to run models on."""
        raise DeviceError("the device 'arithmetic' runs no models")


@hookimpl
def jcw_register_devices() -> Sequence[Arithmetic]:
    """One kind of device."""
    return [Arithmetic()]

"""``GuardedDevice``: any device, with its answers checked and its calls ended when they hang."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jcw_core.cli import background
from jcw_core.errors import DeviceError
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import (
    Closable,
    Device,
    DeviceInfo,
    Exporter,
    HasPrecision,
    HasProducts,
    Precision,
    Products,
    TimesLayers,
)
from jcw_core.run.records import is_amount
from jcw_latency.table.end_to_end import EndToEndFit
from jcw_latency.table.text import unprintable

T = TypeVar("T")

Seconds = NDArray[np.float64]

_GRACE = 1.0
"""Seconds for a call to end that nobody waits for any more; one that does not hangs."""


@runtime_checkable
class KnowsEndToEndFits(Protocol):
    """What a ``Device`` that runs no models may have besides: what they cost where they ran."""

    def end_to_end_fits(self, network: Network) -> Mapping[str, EndToEndFit]:
        """What end-to-end runs of a network cost, by its name; empty where that is not known."""


class GuardedDevice:
    """A device whose answers have the right shape, or are a ``DeviceError``.

    Args:
        device: an open device.
        timeout: seconds after which one call counts as hung.
        exporter: of the device's ``model_format``; None leaves a device to time layers alone.
    """

    def __init__(self, device: Device, timeout: float, exporter: Exporter | None = None) -> None:
        self.exporter = exporter
        self._device = device
        self._timeout = timeout
        self.info = self._call(device.describe)
        if not isinstance(self.info, DeviceInfo):
            raise DeviceError(
                f"{type(device).__name__} describes itself as {self.info!r:.60}, expected a DeviceInfo; tell its author"
            )
        # Before it is timed: it will stand in a table.
        if (problem := unprintable(self.info.to_dict())) is not None:
            raise DeviceError(
                f"{type(device).__name__} describes itself with text in which {problem}; tell its author"
            )

    @classmethod
    def of(cls, device: Device, timeout: float, exporters: Mapping[str, Exporter]) -> GuardedDevice:
        """Guard a device, and look up the exporter that it needs to run models.

        Raises:
            PluginError: that exporter is not installed.
            DeviceError: the device does not say what it is.
        """
        return cls(device, timeout, exporters[device.model_format] if device.model_format else None)

    @property
    def model_format(self) -> str:
        """Name of the exporter whose files it runs, or ``""``."""
        return self._device.model_format

    @property
    def precision(self) -> Precision:
        """As ``HasPrecision``; ``float32`` for a device that has no choice."""
        return self._device.precision if isinstance(self._device, HasPrecision) else "float32"

    @property
    def products(self) -> Products:
        """As ``HasProducts``; ``bytes`` for a device that does not know."""
        return self._device.products if isinstance(self._device, HasProducts) else "bytes"

    def end_to_end_fits(self, network: Network) -> Mapping[str, EndToEndFit]:
        """As ``KnowsEndToEndFits``; empty for a device that is none."""
        return self._device.end_to_end_fits(network) if isinstance(self._device, KnowsEndToEndFits) else {}

    def measure(self, problems: Sequence[LayerProblem], rounds: int) -> Seconds:
        """As ``Device.measure``; a time that is not above 0 is NaN."""
        return self._checked(
            lambda: self._device.measure(problems, rounds=rounds), rounds, len(problems), "layers"
        )

    def measure_models(self, paths: Sequence[Path], rounds: int) -> Seconds:
        """As ``Device.measure_models``; a time that is not above 0 is NaN."""
        return self._checked(
            lambda: self._device.measure_models(paths, rounds=rounds), rounds, len(paths), "models"
        )

    def measure_layers(self, paths: Sequence[Path], rounds: int) -> Sequence[Mapping[str, float]] | None:
        """As ``TimesLayers.measure_layers``, for each of some models; None for a device that is none."""
        device = self._device
        if not isinstance(device, TimesLayers):
            return None
        return [
            self._times(self._call(partial(device.measure_layers, path, rounds=rounds))) for path in paths
        ]

    def _times(self, answer: Any) -> Mapping[str, float]:
        named = isinstance(answer, Mapping) and all(isinstance(name, str) for name in answer)
        if not named or None in answer.values() or not all(map(is_amount, answer.values())):
            raise DeviceError(
                f"device {self.info.name!r} returned {answer!r:.60}, expected seconds by layer; is it the version that "
                "goes with this one?"
            )
        found: Mapping[str, float] = answer
        return found

    def _checked(self, call: Callable[[], Seconds], rounds: int, count: int, what: str) -> Seconds:
        answer = self._call(call)
        try:
            seconds = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DeviceError(
                f"device {self.info.name!r} returned {answer!r:.60}, expected times for {rounds} rounds of "
                f"{count} {what}; is it the version that goes with this one?"
            ) from None
        if seconds.shape != (rounds, count):
            raise DeviceError(
                f"device {self.info.name!r} returned times of shape {seconds.shape} for {rounds} rounds of "
                f"{count} {what}; is it the version that goes with this one?"
            )
        # A clock that jumped.
        return np.where(np.isfinite(seconds) & (seconds > 0), seconds, np.nan)

    def _call(self, call: Callable[[], T]) -> T:
        """Call in a thread that can be left behind; a device that can be closed then is."""
        results: list[T] = []
        errors: list[BaseException] = []
        ended = threading.Event()

        def target() -> None:
            try:
                results.append(call())
            except BaseException as error:  # handed to the caller below, whatever it is
                errors.append(error)
            finally:
                ended.set()

        thread = background.start(target)
        try:
            ended.wait(self._timeout)
        finally:
            # After the timeout, or when the user interrupts.
            if hangs := not ended.is_set():
                self._abandon(thread)
        if hangs:
            raise DeviceError(
                f"{type(self._device).__name__} has not answered for {self._timeout:g} s; look after the device, "
                "or raise the option timeout, and run again"
            )
        if errors:
            raise errors[0]
        return results[0]

    def _abandon(self, thread: threading.Thread) -> None:
        if isinstance(self._device, Closable):
            self._device.close()
        thread.join(_GRACE)

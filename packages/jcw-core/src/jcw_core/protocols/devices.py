"""What a device is: it times layers and whole models; and the plugin that connects to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols.models import Precision, Products


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a latency was measured on.

    Args:
        name: the device's plugin name.
        cpu: model of the processor.
        isa: instruction set that the kernels used, e.g. ``"avx512"``.
        threads: threads per network.
        versions: engine and other versions that change timings.

    Raises:
        DeviceError: a value of another type, or fewer threads than one.
    """

    name: str
    cpu: str
    isa: str
    threads: int
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("name", "cpu", "isa"):
            if not isinstance(getattr(self, key), str):
                raise self._error(key, "text")
        if not isinstance(self.threads, int) or isinstance(self.threads, bool) or self.threads < 1:
            raise self._error("threads", "a whole number above 0")
        named = isinstance(self.versions, Mapping) and all(
            isinstance(word, str) for pair in self.versions.items() for word in pair
        )
        if not named:
            raise self._error("versions", "text by name")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return {
            "name": self.name,
            "cpu": self.cpu,
            "isa": self.isa,
            "threads": self.threads,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_dict(cls, document: Any) -> DeviceInfo:
        """What ``to_dict`` made, after a journey through JSON. Raises ``DeviceError`` for anything else."""
        try:
            return cls(**document)
        except TypeError as error:
            raise DeviceError(f"not a device: {error}") from None

    def _error(self, key: str, expected: str) -> DeviceError:
        found = f"{getattr(self, key)!r:.60}"
        return DeviceError(f"device {self.name!r:.60}: {key} is {found}, expected {expected}")


class Device(Protocol):
    """An open device. Times are seconds for one image; every visit is timed after a warm-up."""

    @property
    def model_format(self) -> str:
        """Name of the exporter whose files ``measure_models`` runs; ``""`` when it runs no models."""

    def describe(self) -> DeviceInfo:
        """Say what is being measured on."""

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        """Time layers: prepare them all, then visit each once per round.

        What is fused into a layer counts, a second convolution (``then``) included.

        Returns:
            (rounds, len(problems)) seconds; NaN where a single problem could not be timed.

        Raises:
            DeviceError: the device cannot measure, died or hung.
        """

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        """Time whole exported models, interleaved: each once per round.

        Returns:
            (rounds, len(paths)) seconds.

        Raises:
            DeviceError: as ``measure``.
        """


@runtime_checkable
class Closable(Protocol):
    """What a ``Device`` may have besides: a way to be given up. Good for one that waits for another machine."""

    def close(self) -> None:
        """End what it does; a call in progress in another thread raises ``DeviceError``. None follows."""


@runtime_checkable
class TimesLayers(Protocol):
    """What a ``Device`` that runs models may have besides: where the time of one goes."""

    def measure_layers(self, path: Path, *, rounds: int) -> Mapping[str, float]:
        """Time each layer of an exported model as it runs whole.

        Returns:
            seconds by name of the node, what an engine does before or after it included; a layer that runs together
            with the one before it may be missing.

        Raises:
            DeviceError: as ``Device.measure``.
        """


@runtime_checkable
class HasPrecision(Protocol):
    """What a ``Device`` may have besides: a choice of what it times layers in."""

    @property
    def precision(self) -> Precision:
        """What the models are to compute with that it is given; ``float32`` for other devices."""


@runtime_checkable
class HasProducts(Protocol):
    """What a ``Device`` may have besides: it knows what its processor sums up at once of whole numbers."""

    @property
    def products(self) -> Products:
        """By which layers are chosen that compute with int8; ``bytes`` for other devices."""


class DevicePlugin(Protocol):
    """A kind of device.

    ``options`` is a frozen dataclass of the keys that ``[device]`` takes in a recipe beside ``name``.
    """

    @property
    def name(self) -> str:
        """What recipes call it."""

    @property
    def options(self) -> type[Any]:
        """Frozen dataclass of its recipe keys, see ``jcw_core.options``."""

    def open(self, options: Any) -> Device:
        """Connect. ``options`` is an instance of ``self.options``.

        Raises:
            DeviceError: the device is absent or refuses.
        """

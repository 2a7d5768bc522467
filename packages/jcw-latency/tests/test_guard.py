"""Devices that do not answer are told so."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from latency_samples import SyntheticDevice
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.problem import LayerProblem
from jcw_latency.guard import GuardedDevice


class Hanging(SyntheticDevice):
    """Waits until it is closed."""

    def __post_init__(self) -> None:
        self.waits, self.closed = threading.Event(), threading.Event()

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        self.waits.set()
        self.closed.wait()
        raise DeviceError("was closed")

    def close(self) -> None:
        self.closed.set()


PROBLEM = LayerProblem("conv2d", 4, 8, 8, 4, (3, 3))


def test_a_device_that_hangs_is_closed() -> None:
    device = Hanging()
    with pytest.raises(DeviceError, match=r"has not answered for 0\.2 s"):
        GuardedDevice(device, 0.2).measure([PROBLEM], 1)
    assert device.closed.is_set()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell that starts pytest in the background has it ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_device_that_the_user_interrupts_is_closed() -> None:
    device = Hanging()

    def interrupt() -> None:
        device.waits.wait()
        # A signal that comes just before the main thread goes to sleep does not wake it; the next one does.
        while not device.closed.wait(0.5):
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        GuardedDevice(device, 600).measure([PROBLEM], 1)
    assert device.closed.is_set()

"""``GuardedDevice``: devices that hang or are interrupted are closed, and commands end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from latency_samples import SyntheticDevice
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem
from jcw_latency.devices.guarded import GuardedDevice


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


def test_a_call_that_ends_soon_after_the_timeout_is_awaited() -> None:
    ended = threading.Event()

    class Late(SyntheticDevice):
        def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
            time.sleep(0.5)
            ended.set()
            return super().measure(problems, rounds=rounds)

    with pytest.raises(DeviceError, match="has not answered"):
        GuardedDevice(Late(), 0.2).measure([PROBLEM], 1)
    assert ended.is_set()


Hangs = Callable[[int], tuple[subprocess.Popen[str], str]]
"""Takes the timeout; gives the process, and what its last line ends with."""
COMMAND = """
import sys, threading
sys.path.insert(0, sys.argv.pop(1)); sys.path.insert(0, sys.argv.pop(1))
from jcw_core.cli import main as cli
from jcw_core.hookspecs import hookimpl
from jcw_core.registry import Registry
from jcw_latency.devices import guarded as guard
from latency_samples import Plugin, SyntheticDevice, SyntheticPlugin

guard._GRACE = 0.1

class Deaf(SyntheticDevice):
    def measure_models(self, paths, *, rounds):
        print("hangs", flush=True)
        lock = threading.Lock()
        while lock.acquire():
            pass

SyntheticPlugin.open = lambda self, options: Deaf()
cli.Registry = lambda: Registry({"synthetic": Plugin()})
cli.main()
"""


@pytest.fixture(params=["profile", "check"])
def hangs(request: pytest.FixtureRequest, network: Network, table_file: Path) -> Hangs:
    """Start a command on a device that times layers, and hangs at the first network for good."""
    (table_file.parent / "net.json").write_text(network.to_json())
    arguments = {
        "profile": ["net.json", "--device=synthetic", "-o", "made.npz", "--set", "timeout="],
        "check": ["table.npz", "--timeout="],
    }[request.param]
    note = {"profile": "; the same command continues from made.npz.partial", "check": ""}[request.param]
    here = Path(__file__).parent
    folders = [str(here), str(here.parents[1] / "jcw-core" / "tests")]

    def start(timeout: int) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                COMMAND,
                *folders,
                request.param,
                *arguments[:-1],
                f"{arguments[-1]}{timeout}",
            ],
            cwd=table_file.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # As below.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        return process, note

    return start


def test_command_ends_when_its_device_hangs(hangs: Hangs) -> None:
    process, note = hangs(1)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    told = "jcw: Deaf has not answered for 1 s; look after the device, or raise the option timeout, and run again"
    told += f" (see {DeviceError.page})"
    assert errors.strip() == told + note  # older progress bars end in an empty line


def test_interrupted_command_says_whether_it_continues(hangs: Hangs) -> None:
    process, note = hangs(600)
    process.send_signal(signal.SIGINT)
    # A signal that comes just before the main thread goes to sleep does not wake it; the next one does.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.strip() == "jcw: interrupted" + note


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

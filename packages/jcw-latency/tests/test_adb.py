"""The device ``adb``: phones that refuse, are absent or are unplugged; what it shares with ssh is in test_remote.py."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from remote_servers import adb_device, adb_server, free_port, needs_adb
from stand_in_adbd import Adbd

from jcw_core.errors import DeviceError
from jcw_core.network.problem import LayerProblem
from jcw_latency.devices.adb import AdbOptions, AdbPlugin

pytestmark = needs_adb

Connect = Callable[[Adbd], AdbOptions]
PROBLEMS = [LayerProblem("conv2d", 4, 8, 8, 4, (3, 3))] * 2


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with adb_server(tmp_path_factory.mktemp("adb")):
        yield


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Turns a device on and gives options for it."""
    with ExitStack() as stack:
        yield lambda device: stack.enter_context(adb_device(device, tmp_path))


def open_and_fail(options: AdbOptions) -> str:
    with pytest.raises(DeviceError) as caught:
        AdbPlugin().open(options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_device_is_found_by_its_serial_number(connect: Connect) -> None:
    first, second = connect(Adbd()), connect(Adbd())
    for options in (first, second):
        AdbPlugin().open(options)
    device = AdbPlugin().open(replace(second, connect="", serial=second.connect))
    assert device.measure(PROBLEMS, rounds=2).shape == (2, 2)
    # A device plugged in by cable would be a third.
    assert "more than one device/emulator; choose with serial" in open_and_fail(
        replace(second, connect="", folder="/proc/none")
    )


def test_the_program_is_copied_once_to_a_phone(connect: Connect) -> None:
    phone = Adbd()
    options = connect(phone)
    for _ in range(2):
        AdbPlugin().open(options).measure(PROBLEMS, rounds=1)
    names = [name.partition("-")[0] for name in phone.pushed]
    assert names == ["jcw", "work", "work"]


def test_no_phone_is_connected(connect: Connect) -> None:
    options = connect(Adbd())  # on, but adb is not told to connect to it
    # Were a device plugged in by cable, nothing could be written there.
    message = open_and_fail(replace(options, connect="", folder="/proc/none"))
    assert (
        message == "adb: no devices/emulators found; plug one in and turn on USB debugging, or give connect"
    )
    message = open_and_fail(replace(options, connect="", serial="nobody"))
    assert message == "nobody: device 'nobody' not found; `adb devices` lists what there is"
    address = f"127.0.0.1:{free_port()}"
    message = open_and_fail(replace(options, connect=address))
    assert message == f"{address}: failed to connect to '{address}': Connection refused"


def test_a_device_that_does_not_know_this_computer(connect: Connect) -> None:
    options = connect(Adbd(answers="unauthorized"))
    address = options.connect
    # Which of these adb says depends on how far its own retries have come.
    refusals = {
        f"{address}: {said}; unlock it and allow this computer to debug"
        for said in (
            f"failed to authenticate to {address}",
            "device unauthorized",
            "device still authorizing",
        )
    }
    assert open_and_fail(options) in refusals
    assert open_and_fail(replace(options, connect="", serial=address)) in refusals


def test_a_device_that_is_offline(connect: Connect) -> None:
    phone = Adbd()
    options = connect(phone)
    device = AdbPlugin().open(options)
    phone.answers = "offline"
    phone.unplug()
    for _ in range(600):  # until adb has come back to it and hears nothing
        listed = subprocess.run(["adb", "devices"], capture_output=True, text=True, check=True).stdout
        if f"{options.connect}\toffline" in listed:
            break
        time.sleep(0.05)
    with pytest.raises(DeviceError, match="device offline; unplug it and plug it in again"):
        device.measure(PROBLEMS, rounds=1)


@pytest.mark.parametrize("moment", [" layers ", "work-0"])
def test_a_phone_that_is_unplugged_while_it_measures(connect: Connect, moment: str) -> None:
    phone = Adbd()
    device = AdbPlugin().open(connect(phone))
    phone.unplug_on = moment
    with pytest.raises(DeviceError) as caught:
        device.measure(PROBLEMS, rounds=1)
    assert "\n" not in str(caught.value)
    assert "broke in the middle" in str(caught.value) or "failed to copy" in str(caught.value)


def test_a_program_that_was_copied_in_part_is_copied_again(connect: Connect, tmp_path: Path) -> None:
    phone = Adbd(unplug_on=".part")
    options = connect(phone)
    open_and_fail(options)
    assert all(path.suffix == ".part" for path in Path(options.folder).iterdir())
    phone.unplug_on = ""
    subprocess.run(["adb", "disconnect", options.connect], check=False, capture_output=True)
    times = AdbPlugin().open(options).measure(PROBLEMS, rounds=1)
    np.testing.assert_allclose(times, 16e-6)


def test_no_adb(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = connect(Adbd())
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert open_and_fail(options).startswith(
            "the adb command is not installed; install Android's platform"
        )

"""The device ``adb``: a phone or another Android machine, through the Android Debug Bridge."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from jcw_core.errors import DeviceError
from jcw_core.options import option
from jcw_core.protocols import Precision
from jcw_latency.devices.process import Client
from jcw_latency.devices.remote import RemoteDevice

_HINTS = {
    "no devices": "plug one in and turn on USB debugging, or give connect",
    "authoriz": "unlock it and allow this computer to debug",
    "failed to authenticate": "unlock it and allow this computer to debug",
    "offline": "unplug it and plug it in again, or restart it",
    "not found": "`adb devices` lists what there is",
    "more than one": "choose with serial; `adb devices` lists what there is",
}
"""What to do, by words in the messages of adb."""

_STATUS = "jcw-status"


@dataclass(frozen=True, slots=True)
class AdbOptions:
    """``[device] name = "adb"``. The variables that adb reads, such as ``ANDROID_SERIAL``, hold, too."""

    program: Path = option(help="jcw-device, built for that machine")
    serial: str = option("", help="which device, as `adb devices` lists it; needed when there are several")
    connect: str = option("", help="address or address:port of a device on the network, to connect to first")
    folder: str = option("/data/local/tmp/jcw", help="folder there for the program and the files to be timed")
    core: int = option(-1, low=-1, high=4095, help="core to run on (taskset); -1 leaves it to the system")
    launcher: str = option("", help="command there that starts the program, such as an emulator")
    threads: int = option(1, low=1, high=256, help="threads per image")
    isa: str = option("", help="instruction set to force")
    precision: Precision = option(
        "float32",
        help="what layers are timed in, as export.precision; of int8 those that calibration takes",
    )


class AdbPlugin:
    """Registers the device."""

    name = "adb"
    options = AdbOptions

    def open(self, options: AdbOptions) -> RemoteDevice:
        """Find the device, and copy ``jcw-device`` unless it is there. Raises ``DeviceError``."""
        return RemoteDevice(self.name, AdbTransport(options), options)


class AdbTransport:
    """Commands and files over the ``adb`` command."""

    def __init__(self, options: AdbOptions) -> None:
        self._client = Client("adb", "Android's platform tools (Debian package adb)")
        address = options.connect
        if address and ":" not in address:
            address = f"{address}:5555"
        serial = options.serial or address
        self.name = serial or "adb"
        self._words = ["-s", serial] if serial else []
        if address:
            self._connect(address)

    def run(self, command: str) -> str:
        """As ``Transport.run``.

        adb's shell protocol, which knows exit statuses, is missing on older devices, and its client calls
        a connection that broke a success. ``exec-out`` is plain bytes on all of them: what the command
        prints, then its status, then what it said on standard error.
        """
        caught = f"said=$( ( {command} ) 2>&1 >&3 3>&- )"
        script = f'{{ {caught}; echo "{_STATUS} $? $said"; }} 3>&1'
        printed = self._call("exec-out", script)
        output, mark, end = printed.rpartition(f"{_STATUS} ")
        if not mark:
            raise DeviceError(f"{self.name}: the connection broke in the middle of a command")
        status, _, said = end.partition(" ")
        if status != "0":
            lines = said.strip().splitlines() or [f"exit status {status.strip()}"]
            raise DeviceError(f"{self.name}: {lines[-1]}")
        return output

    def push(self, source: Path, target: str) -> None:
        """As ``Transport.push``. The other end removes what it could not write whole."""
        self._call("push", str(source), f"{target}.part")
        self.run(f"mv -f {shlex.quote(f'{target}.part')} {shlex.quote(target)}")

    def close(self) -> None:
        """As ``Transport.close``."""
        self._client.close()

    def _connect(self, address: str) -> None:
        said = self._client.run(["connect", address]).stdout.strip()
        # The exit status is 0 whatever happens.
        if not said.startswith(("connected", "already connected")):
            raise self._error(said)

    def _call(self, *words: str) -> str:
        done = self._client.run([*self._words, *words])
        if done.returncode:
            raise self._error(done.stderr or done.stdout)
        return done.stdout

    def _error(self, said: str) -> DeviceError:
        """The line that names the cause, which advice may follow, and a hint of our own."""
        lines = said.strip().splitlines() or ["adb failed and does not say why"]
        cause = next((line for line in lines if "error: " in line), lines[-1])
        cause = cause.rpartition("error: ")[2].rstrip(".")
        hint = next((f"; {hint}" for words, hint in _HINTS.items() if words in cause), "")
        return DeviceError(f"{self.name}: {cause}{hint}")

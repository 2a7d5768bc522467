"""The device ``ssh``: another machine, by its name in OpenSSH."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jcw_core.errors import DeviceError
from jcw_core.options import option
from jcw_core.protocols import Precision
from jcw_latency.devices.process import Client
from jcw_latency.devices.remote import RemoteDevice


@dataclass(frozen=True, slots=True)
class SshOptions:
    """``[device] name = "ssh"``. What OpenSSH's own configuration says of the host holds, too."""

    host: str = option(help="name or address, as for ssh")
    program: Path = option(help="jcw-device, built for that machine")
    user: str = option("", help="user there")
    port: int = option(0, low=0, high=65535, help="port; 0 is the usual one")
    key: Path | None = option(None, help="private key")
    config: Path | None = option(None, help="configuration file for ssh in place of the user's own")
    folder: str = option(".cache/jcw", help="folder there for the program and the files to be timed")
    core: int = option(-1, low=-1, high=4095, help="core to run on (taskset); -1 leaves it to the system")
    launcher: str = option("", help="command there that starts the program, e.g. sudo chrt -f 50")
    threads: int = option(1, low=1, high=256, help="threads per image")
    isa: str = option("", help="instruction set to force")
    precision: Precision = option(
        "float32",
        help="what layers are timed in, as export.precision; of int8 those that calibration takes",
    )
    connect_seconds: int = option(15, low=1, high=3600, help="patience for a host that does not answer")


class SshPlugin:
    """Registers the device."""

    name = "ssh"
    options = SshOptions

    def open(self, options: SshOptions) -> RemoteDevice:
        """Connect, and copy ``jcw-device`` unless it is there. Raises ``DeviceError``."""
        return RemoteDevice(self.name, SshTransport(options), options)


class SshTransport:
    """Commands and files over the ``ssh`` command."""

    def __init__(self, options: SshOptions) -> None:
        self.name = f"{options.user}@{options.host}" if options.user else options.host
        self._client = Client("ssh", "an OpenSSH client")
        settings = {
            "BatchMode": "yes",
            "LogLevel": "ERROR",
            "ConnectTimeout": options.connect_seconds,
            # A line that goes dead is noticed within a minute.
            "ServerAliveInterval": 15,
            "ServerAliveCountMax": 4,
        }
        words = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        words += ["-F", str(options.config)] if options.config else []
        words += ["-i", str(options.key)] if options.key else []
        words += ["-p", str(options.port)] if options.port else []
        words += ["-l", options.user] if options.user else []
        self._words = [*words, "--", options.host]

    def run(self, command: str) -> str:
        """As ``Transport.run``."""
        return self._call(command, subprocess.DEVNULL)

    def push(self, source: Path, target: str) -> None:
        """As ``Transport.push``; through ``cat``, so that the machine needs no sftp server."""
        part, whole = shlex.quote(f"{target}.part"), shlex.quote(target)
        with source.open("rb") as file:
            self._call(f"cat > {part} && mv -f {part} {whole} || {{ rm -f {part}; exit 1; }}", file)

    def close(self) -> None:
        """As ``Transport.close``."""
        self._client.close()

    def _call(self, command: str, source: int | IO[bytes]) -> str:
        done = self._client.run([*self._words, command], source)
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise DeviceError(f"{self.name}: {said[-1]}")
        return done.stdout

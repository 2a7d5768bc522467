"""``Client``: runs the command ``ssh`` or ``adb``, and ends it when it waits for ever."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from jcw_core.errors import DeviceError


class Client:
    """Runs one program, a call at a time, until it is closed.

    Args:
        program: name of the command.
        package: what to install when there is none.
    """

    def __init__(self, program: str, package: str) -> None:
        self._program, self._package = program, package
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(
        self, words: Sequence[str], source: int | IO[bytes] = subprocess.DEVNULL
    ) -> subprocess.CompletedProcess[str]:
        """Run it with arguments and standard input; what it prints is text whatever its bytes are.

        Raises:
            DeviceError: it is not installed, or was closed before it ended.
        """
        command = [self._program, *words]
        process = self._start(command, source)
        output, errors = (stream.decode(errors="replace") for stream in process.communicate())
        if self._closed:
            raise DeviceError(f"{self._program} was ended before it answered")
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def close(self) -> None:
        """End the call that another thread is in, and refuse further ones."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _start(self, command: Sequence[str], source: int | IO[bytes]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise DeviceError(f"{self._program} was ended when it did not answer; open the device again")
            try:
                self._process = subprocess.Popen(
                    command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except FileNotFoundError:
                raise DeviceError(
                    f"the {self._program} command is not installed; install {self._package}"
                ) from None
            return self._process

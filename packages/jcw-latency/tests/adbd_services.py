"""What the stand-in for Android's daemon does when a stream is opened: commands, and files as SYNC.TXT describes."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stand_in_adbd import Stream


def execute(stream: Stream, command: str) -> None:
    """``exec:``: a command's output, standard error with it, without its status."""
    device = stream.device
    process = subprocess.Popen(
        [*device.shell, command], cwd="/", env=device.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, start_new_session=True,
    )  # fmt: skip
    device.running.add(process)
    stream.begun(command)
    try:
        assert process.stdout is not None
        while data := process.stdout.read(65536):
            stream.write(data)
    finally:
        end(process)
        device.running.discard(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of it and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def synchronise(stream: Stream, _: str) -> None:
    """``sync:``: requests of four letters and a number until QUIT."""
    while True:
        request, size = struct.unpack("<4sI", stream.read(8))
        if request == b"QUIT":
            return
        argument = stream.read(size).decode()
        if request == b"STAT":
            stream.write(b"STAT" + struct.pack("<3I", *status(Path(argument))))
        elif request == b"SEND":
            answer = receive(stream, Path(argument.rpartition(",")[0]))
            stream.write((b"FAIL" if answer else b"OKAY") + struct.pack("<I", len(answer)) + answer)
        else:
            raise EOFError


def status(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime)


def receive(stream: Stream, path: Path) -> bytes:
    """Write a file; what went wrong, and then the rest is read all the same and the file removed."""
    stream.device.pushed.append(path.name)
    fault = ""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("wb", buffering=0))
        except OSError as error:
            fault = f"couldn't create file: {error.strerror}"
        while True:
            kind, size = struct.unpack("<4sI", stream.read(8))
            if kind == b"DONE":
                break
            data = stream.read(size)
            stream.begun(path.name)
            try:
                if not fault:
                    file.write(data)
            except OSError as error:
                fault = f"write failed: {error.strerror}"
    # Never a device such as /dev/full itself.
    if fault and (path.is_symlink() or path.is_file()):
        path.unlink()
    return fault.encode()

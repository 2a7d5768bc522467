"""The daemon of an Android device, as far as adb's real client and server ask: commands and files.

It speaks the wire protocol that protocol.txt in adb's source describes, over TCP: messages CNXN, AUTH, OPEN,
OKAY, WRTE and CLSE. adbd_services.py has the services that streams carry.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from adbd_services import end, execute, synchronise

A_CNXN, A_AUTH, A_OPEN, A_OKAY, A_WRTE, A_CLSE = (
    int.from_bytes(name, "little") for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE")
)
CHECKSUMS, NO_CHECKSUMS = 0x01000000, 0x01000001
"""Versions of the protocol: before and after checksums were given up."""

TOKEN = 1
"""Kind of AUTH message: bytes to be signed."""


@dataclass
class Adbd:
    """A device.

    Args:
        environment, shell: of commands.
        features: as the device announces them; none on Android 6.
        version, max_payload: of the protocol.
        answers: ``"device"``, ``"unauthorized"`` or ``"offline"``.
        unplug_on: the connection breaks once a command or file name with these words has begun.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    shell: Sequence[str] = ("/bin/sh", "-c")
    features: str = "shell_v2,cmd"
    version: int = NO_CHECKSUMS
    max_payload: int = 256 * 1024
    answers: str = "device"
    unplug_on: str = ""

    def __post_init__(self) -> None:
        self.pushed: list[str] = []
        self.running: set[subprocess.Popen[bytes]] = set()

    @contextlib.contextmanager
    def listening(self) -> Iterator[str]:
        """Be a device; its address is handed out."""
        self._links: list[Link] = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            try:
                yield f"127.0.0.1:{listener.getsockname()[1]}"
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                self.unplug()
                for process in list(self.running):
                    end(process)

    def unplug(self) -> None:
        for link in self._links:
            link.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                link = Link(self, listener.accept()[0])
                self._links.append(link)
                threading.Thread(target=link.serve, daemon=True).start()


class Link:
    """One connection: messages to and from the streams in it."""

    def __init__(self, device: Adbd, connection: socket.socket) -> None:
        self.device, self._connection, self._lock = device, connection, threading.Lock()
        self.max_payload = device.max_payload
        self._checks = device.version == CHECKSUMS
        self._streams: dict[int, Stream] = {}

    def serve(self) -> None:
        try:
            with contextlib.suppress(EOFError, OSError):
                while True:
                    self._take(*self._receive())
        finally:
            for stream in list(self._streams.values()):
                stream.closed()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def send(self, command: int, arg0: int, arg1: int, data: bytes = b"") -> None:
        check = sum(data) if self._checks else 0
        head = struct.pack("<6I", command, arg0, arg1, len(data), check, command ^ 0xFFFFFFFF)
        with self._lock:
            self._connection.sendall(head + data)

    def _receive(self) -> tuple[int, int, int, bytes]:
        head = self._exactly(24)
        command, arg0, arg1, size, check, magic = struct.unpack("<6I", head)
        assert magic == command ^ 0xFFFFFFFF
        data = self._exactly(size)
        # The first message comes before the versions are known, and always has one.
        assert not (self._checks or command == A_CNXN) or check == sum(data)
        return command, arg0, arg1, data

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if not (more := self._connection.recv(size - len(data))):
                raise EOFError
            data += more
        return data

    def _take(self, command: int, arg0: int, arg1: int, data: bytes) -> None:
        if command in (A_CNXN, A_AUTH):
            self._greet(command, arg1)
        elif command == A_OPEN:
            self._open(arg0, data.rstrip(b"\0").decode())
        elif stream := self._streams.get(arg1):
            if command == A_WRTE:
                stream.arrived.put(data)
                self.send(A_OKAY, arg1, arg0)
            elif command == A_OKAY:
                stream.taken.release()
            elif command == A_CLSE:
                stream.closed()

    def _greet(self, command: int, max_payload: int) -> None:
        if self.device.answers == "unauthorized":
            self.send(A_AUTH, TOKEN, 0, bytes(20))  # whatever it is signed with
        elif self.device.answers == "device" and command == A_CNXN:
            self.max_payload = min(max_payload, self.max_payload)
            banner = f"device::ro.product.name=stand_in;ro.product.model=stand_in;ro.product.device=stand_in;features={self.device.features}"
            self.send(A_CNXN, self.device.version, self.device.max_payload, banner.encode())

    def _open(self, remote: int, service: str) -> None:
        name, _, argument = service.partition(":")
        serve = {"exec": execute, "sync": synchronise}.get(name)
        if serve is None:
            self.send(A_CLSE, 0, remote)
            return
        stream = Stream(self, local=len(self._streams) + 1, remote=remote)
        self._streams[stream.local] = stream
        self.send(A_OKAY, stream.local, remote)
        threading.Thread(target=stream.run, args=(serve, argument), daemon=True).start()


class Stream:
    """One service at work."""

    def __init__(self, link: Link, local: int, remote: int) -> None:
        self.device, self.local = link.device, local
        self._link, self._remote, self._open = link, remote, True
        self.arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.taken = threading.Semaphore(0)
        self._buffer = b""

    def run(self, serve: Callable[[Stream, str], None], argument: str) -> None:
        with contextlib.suppress(EOFError, OSError):
            serve(self, argument)
        if self._open:
            with contextlib.suppress(OSError):
                self._link.send(A_CLSE, self.local, self._remote)

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not (more := self.arrived.get()):
                raise EOFError
            self._buffer += more
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def write(self, data: bytes) -> None:
        """Each message waits until the one before it was taken."""
        for start in range(0, len(data), self._link.max_payload):
            self._link.send(A_WRTE, self.local, self._remote, data[start : start + self._link.max_payload])
            self.taken.acquire()
            if not self._open:
                raise EOFError

    def closed(self) -> None:
        self._open = False
        self.arrived.put(b"")
        self.taken.release()

    def begun(self, what: str) -> None:
        if self.device.unplug_on and self.device.unplug_on in what:
            self._link.close()

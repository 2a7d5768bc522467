"""Servers on the loopback address for the real clients ``ssh`` and ``adb``, undisturbed by the user's own."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from programs import find, needs
from stand_in_adbd import Adbd

from jcw_latency.devices.adb import AdbOptions
from jcw_latency.devices.ssh import SshOptions

SSHD = find("sshd")
needs_sshd = needs("sshd", "ssh")
needs_adb = needs("adb")
needs_android_tools = needs("mksh", "toybox")

Options = SshOptions | AdbOptions

STAND_IN = Path(__file__).with_name("stand_in_device.py")
"""Speaks as jcw-device does."""


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshOptions]:
    """Options for an OpenSSH server that lets this user in with a key, and has its own folder."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port()
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nPidFile none\n"
    )
    (folder / "config").write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd keeps its unprivileged half
    assert SSHD is not None
    log = folder / "log"
    process = subprocess.Popen([SSHD, "-D", "-E", log, "-f", folder / "sshd_config"])
    try:
        _wait_for(port, process, log)
        yield SshOptions(
            host="127.0.0.1",
            program=STAND_IN,
            user=getpass.getuser(),
            port=port,
            key=folder / "user",
            config=folder / "config",
            folder=str(folder / "remote"),
        )
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
    pytest.fail("the ssh server does not listen")


@contextmanager
def adb_server(folder: Path) -> Iterator[None]:
    """Clients that start meanwhile ask a server of adb with a port and a home of its own."""
    own = {
        "ANDROID_ADB_SERVER_PORT": str(free_port()),
        "HOME": str(folder),
        # It looks for emulators on the ports up to this one.
        "ADB_LOCAL_TRANSPORT_MAX_PORT": "5554",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        for name in ("ANDROID_SERIAL", "ADB_SERVER_SOCKET", "ADB_VENDOR_KEYS"):
            patch.delenv(name, raising=False)
        # Its log goes to the folder for temporary files.
        there = os.environ | {"TMPDIR": str(folder)}
        subprocess.run(["adb", "start-server"], check=True, capture_output=True, env=there)
        try:
            yield
        finally:
            subprocess.run(["adb", "kill-server"], check=True, capture_output=True)


@contextmanager
def adb_device(device: Adbd, folder: Path) -> Iterator[AdbOptions]:
    """Options for a device that keeps its files in ``folder``; needs ``adb_server``."""
    with device.listening() as address:
        yield AdbOptions(program=STAND_IN, connect=address, folder=str(folder / "remote"))
        subprocess.run(["adb", "disconnect", address], check=False, capture_output=True)


def android_tools(folder: Path) -> dict[str, Any]:
    """Arguments of ``Adbd``: the shell that Android has, and its tools in place of this machine's."""
    folder.mkdir()
    toybox = find("toybox")
    assert toybox is not None
    for name in subprocess.run([toybox], capture_output=True, text=True, check=True).stdout.split():
        (folder / name).symlink_to(toybox)
    return {"environment": os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}, "shell": ("mksh", "-c")}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])

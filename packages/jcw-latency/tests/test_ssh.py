"""The device ``ssh``: hosts that refuse; what it shares with adb is in test_remote.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from remote_servers import needs_sshd, ssh_server

from jcw_core.errors import DeviceError
from jcw_latency.devices.ssh import SshOptions, SshPlugin

pytestmark = needs_sshd


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshOptions]:
    with ssh_server(tmp_path_factory.mktemp("ssh")) as options:
        yield options


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"port": 1}, "Connection refused"),
        ({"key": None}, "Permission denied"),
        ({"user": "nobody-here"}, "nobody-here@127.0.0.1: .*Permission denied"),
        ({"host": "-oProxyCommand=touch broken"}, "hostname contains invalid characters"),
    ],
)
def test_hosts_that_refuse(server: SshOptions, changes: dict[str, object], message: str) -> None:
    with pytest.raises(DeviceError, match=message) as caught:
        SshPlugin().open(replace(server, **{"connect_seconds": 5, **changes}))
    assert "\n" not in str(caught.value)


def test_no_ssh(server: SshOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="the ssh command is not installed; install an OpenSSH client"):
        SshPlugin().open(server)

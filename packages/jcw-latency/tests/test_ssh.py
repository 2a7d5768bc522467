"""The device ``ssh`` against a real OpenSSH server on the loopback address."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from core_networks import small_resnet
from latency_samples import quick_options

from jcw_core.errors import DeviceError
from jcw_core.problem import LayerProblem
from jcw_core.registry import Registry
from jcw_latency import profile
from jcw_latency.guard import GuardedDevice
from jcw_latency.ssh import SshOptions, SshPlugin

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="no OpenSSH server; install openssh-server"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshOptions]:
    """Options for a server that lets this user in with a key and has its own folder."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
            program=Path(__file__).with_name("stand_in_device.py"),
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


@pytest.fixture
def mood(server: SshOptions) -> Iterator[Path]:
    file = Path(server.folder) / "mood"
    file.parent.mkdir(exist_ok=True)
    yield file
    file.unlink(missing_ok=True)


PROBLEMS = [LayerProblem("conv2d", c, 8, 8, 4 * c, (3, 3), density=0.3) for c in range(1, 8)]


def test_layers_and_models_are_timed_there(server: SshOptions, tmp_path: Path) -> None:
    device = SshPlugin().open(server)
    info = device.describe()
    assert (info.name, info.cpu, info.isa, info.threads) == ("ssh", "stand-in", "neon", 1)
    assert info.versions == {"jcw-kernels": "9.9"}
    times = device.measure([*PROBLEMS, LayerProblem("flatten", 4, 2, 2, 16)], rounds=3)
    expected = [1e-6 * p.in_channels * p.out_channels for p in PROBLEMS]
    np.testing.assert_allclose(times, [[*expected, np.nan]] * 3)
    models = [tmp_path / "a model.jcw", tmp_path / "b.jcw"]
    for size, path in enumerate(models, start=1):
        path.write_bytes(b"x" * size)
    np.testing.assert_allclose(device.measure_models(models, rounds=2), [[1e-3, 2e-3]] * 2)
    assert [p.name.partition("-")[0] for p in Path(server.folder).iterdir()] == ["jcw"]


def test_the_program_is_copied_once(server: SshOptions, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(server.program.read_text())
    options = replace(server, program=program, folder=f"{server.folder}/a folder")
    SshPlugin().open(options)
    (there,) = Path(options.folder).iterdir()
    before = there.stat()
    SshPlugin().open(options)
    assert there.stat().st_mtime_ns == before.st_mtime_ns
    there.write_text("#!/bin/sh\nexit 3\n")  # damaged: its hash is not its name's
    assert SshPlugin().open(options).describe().cpu == "stand-in"
    program.write_text(program.read_text() + "# newer\n")
    SshPlugin().open(options)
    assert len(list(Path(options.folder).iterdir())) == 2


def test_a_core_can_be_chosen(server: SshOptions) -> None:
    assert SshPlugin().open(replace(server, core=0)).measure(PROBLEMS, rounds=1).shape == (1, len(PROBLEMS))
    with pytest.raises(DeviceError, match="taskset"):
        SshPlugin().open(replace(server, core=4000))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refuses", "cannot allocate memory"),
        ("stops", "returned 3 of 14 times"),
        ("babbles", "'Killed', expected a line of JSON"),
        ("counts wrong", "not a round"),
    ],
)
def test_a_program_that_misbehaves(server: SshOptions, mood: Path, name: str, message: str) -> None:
    device = SshPlugin().open(server)
    mood.write_text(name)
    with pytest.raises(DeviceError, match=message):
        device.measure(PROBLEMS, rounds=2)
    assert not list(Path(server.folder).glob("work-*"))


def test_a_program_that_hangs(server: SshOptions, mood: Path) -> None:
    device = GuardedDevice(SshPlugin().open(server), 2.0)
    mood.write_text("hangs")
    with pytest.raises(DeviceError, match="has not answered for 2 s"):
        device.measure(PROBLEMS, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"port": 1}, "Connection refused"),
        ({"key": None}, "Permission denied"),
        ({"user": "nobody-here"}, "nobody-here@127.0.0.1: .*Permission denied"),
        ({"host": "-oProxyCommand=touch broken"}, "hostname contains invalid characters"),
        ({"folder": "/proc/none"}, "cannot create directory"),
        ({"program": Path("nothing")}, "nothing: No such file"),
        ({"program": Path(__file__).with_name("conftest.py")}, "."),
    ],
)
def test_hosts_that_refuse(
    server: SshOptions, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    options = replace(server, **{"folder": str(tmp_path / "there"), "connect_seconds": 5, **changes})
    with pytest.raises(DeviceError, match=message) as caught:
        SshPlugin().open(options)
    assert "\n" not in str(caught.value)


def test_a_full_disk(server: SshOptions, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    device = SshPlugin().open(replace(server, folder=str(tmp_path / "full")))
    (tmp_path / "full" / "work-0.jsonl.part").symlink_to("/dev/full")
    with pytest.raises(DeviceError, match="No space left on device"):
        device.measure(PROBLEMS, rounds=1)


def test_a_network_is_profiled_there(server: SshOptions) -> None:
    plugin = Registry().devices["ssh"]
    device = plugin.open(server)
    device.measure = _without_flatten(device.measure)  # type: ignore[method-assign]
    table = profile(
        small_resnet(), device, quick_options(widths=2, densities=2), rng=np.random.default_rng(0)
    )
    assert table.device.cpu == "stand-in"
    grid = table.grids[0]
    assert grid.ms.flat[-1] == pytest.approx(1e-3 * grid.problem.in_channels * grid.problem.out_channels)


def _without_flatten(measure):  # type: ignore[no-untyped-def]
    """The stand-in cannot time it, as a device may not; here it costs next to nothing."""
    return lambda problems, *, rounds: np.nan_to_num(measure(problems, rounds=rounds), nan=1e-9)

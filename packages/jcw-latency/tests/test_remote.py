"""What the devices ``ssh`` and ``adb`` have in common, through the real clients.

``ssh`` asks a real OpenSSH server; ``adb`` asks the stand-in for a phone's daemon, once as it is now with
Android's own shell and tools, once as on Android 6, which has no shell protocol.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from core_networks import small_resnet
from latency_samples import quick_options
from remote_servers import (
    Options,
    adb_device,
    adb_server,
    android_tools,
    needs_adb,
    needs_android_tools,
    needs_sshd,
    ssh_server,
)
from stand_in_adbd import CHECKSUMS, Adbd

from jcw_core.errors import DeviceError
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import HasPrecision
from jcw_core.registry import Registry
from jcw_latency import profile
from jcw_latency.devices.adb import AdbOptions
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.devices.remote import RemoteDevice

KINDS = [
    pytest.param("ssh", marks=needs_sshd),
    pytest.param("adb", marks=[needs_adb, needs_android_tools]),
    pytest.param("adb of Android 6", marks=needs_adb),
]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    folder = tmp_path_factory.mktemp("server")
    if request.param == "ssh":
        with ssh_server(folder) as options:
            yield options
        return
    device = Adbd(features="", version=CHECKSUMS, max_payload=4096)
    if request.param == "adb":
        device = Adbd(**android_tools(folder / "bin"))
    with adb_server(folder), adb_device(device, folder) as options:
        yield options


def opened(options: Options) -> RemoteDevice:
    name = "adb" if isinstance(options, AdbOptions) else "ssh"
    return Registry().devices[name].open(options)


@pytest.fixture
def mood(server: Options) -> Iterator[Path]:
    file = Path(server.folder) / "mood"
    file.parent.mkdir(exist_ok=True)
    yield file
    file.unlink(missing_ok=True)


PROBLEMS = [LayerProblem("conv2d", c, 8, 8, 4 * c, (3, 3), density=0.3) for c in range(1, 8)]


def test_layers_and_models_are_timed_there(server: Options, tmp_path: Path) -> None:
    device = opened(server)
    info = device.describe()
    assert info.name == ("adb" if isinstance(server, AdbOptions) else "ssh")
    assert (info.cpu, info.isa, info.threads) == ("stand-in", "neon", 1)
    assert info.versions == {"jcw-kernels": "9.9"}
    times = device.measure([*PROBLEMS, LayerProblem("flatten", 4, 2, 2, 16)], rounds=3)
    expected = [1e-6 * p.in_channels * p.out_channels for p in PROBLEMS]
    np.testing.assert_allclose(times, [[*expected, np.nan]] * 3)
    models = [tmp_path / "a model.jcw", tmp_path / "b.jcw"]
    for size, path in enumerate(models, start=1):
        path.write_bytes(b"x" * size)
    np.testing.assert_allclose(device.measure_models(models, rounds=2), [[1e-3, 2e-3]] * 2)
    assert [p.name.partition("-")[0] for p in Path(server.folder).iterdir()] == ["jcw"]


def test_layers_are_timed_in_int8_where_that_is_asked_for(server: Options) -> None:
    device = opened(replace(server, precision="int8"))
    assert isinstance(device, HasPrecision)
    assert device.precision == device.describe().versions["precision"] == "int8"
    np.testing.assert_allclose(
        device.measure(PROBLEMS, rounds=1), opened(server).measure(PROBLEMS, rounds=1) / 2
    )


def test_long_answers_arrive_whole(server: Options) -> None:
    problems = PROBLEMS * 400
    expected = [1e-6 * p.in_channels * p.out_channels for p in problems]
    np.testing.assert_allclose(opened(server).measure(problems, rounds=2), [expected] * 2)


def test_the_program_is_copied_once(server: Options, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(server.program.read_text())
    options = replace(server, program=program, folder=f"{server.folder}/a folder")
    opened(options)
    (there,) = Path(options.folder).iterdir()
    before = there.stat()
    opened(options)
    assert (there.stat().st_mtime_ns, there.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    there.write_text("#!/bin/sh\nexit 3\n")  # damaged: its hash is not its name's
    assert opened(options).describe().cpu == "stand-in"
    program.write_text(program.read_text() + "# newer\n")
    opened(options)
    assert len(list(Path(options.folder).iterdir())) == 2


def test_the_core_and_the_launcher_are_the_ones_asked_for(server: Options, tmp_path: Path) -> None:
    launcher = tmp_path / "launcher.py"
    seen = tmp_path / "seen.json"
    launcher.write_text(
        f"import json, os, sys\nopen({str(seen)!r}, 'w').write(json.dumps(sorted(os.sched_getaffinity(0))))\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    core = max(os.sched_getaffinity(0))
    device = opened(replace(server, core=core, launcher=f"{sys.executable} {launcher}"))
    assert json.loads(seen.read_text()) == [core]
    assert device.measure(PROBLEMS, rounds=1).shape == (1, len(PROBLEMS))
    with pytest.raises(DeviceError, match="taskset"):
        opened(replace(server, core=4000))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refuses", "cannot allocate memory"),
        ("stops", "returned 3 of 14 times"),
        ("babbles", "'Killed', expected a line of JSON"),
        ("counts wrong", "not a round"),
    ],
)
def test_a_remote_program_that_fails_or_prints_nonsense(
    server: Options, mood: Path, name: str, message: str
) -> None:
    device = opened(server)
    mood.write_text(name)
    with pytest.raises(DeviceError, match=message):
        device.measure(PROBLEMS, rounds=2)
    assert not list(Path(server.folder).glob("work-*"))


def test_a_program_that_hangs_is_given_up(server: Options, mood: Path) -> None:
    device = GuardedDevice(opened(server), 2.0)
    mood.write_text("hangs")
    with pytest.raises(DeviceError, match="has not answered for 2 s"):
        device.measure(PROBLEMS, 1)
    # The other end still hangs; the client does not wait for it.
    for thread in threading.enumerate():
        if thread.name == "jcw-device":
            thread.join(60)
            assert not thread.is_alive()
    with pytest.raises(DeviceError, match="was ended when it did not answer"):
        device.measure(PROBLEMS, 1)


def test_a_full_disk(server: Options, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    device = opened(replace(server, folder=str(tmp_path / "full")))
    (tmp_path / "full" / "work-0.jsonl.part").symlink_to("/dev/full")
    with pytest.raises(DeviceError, match="No space left on device"):
        device.measure(PROBLEMS, rounds=1)
    assert not (tmp_path / "full" / "work-0.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folder": "/proc/none"}, "none': No such file|cannot create directory"),
        ({"program": Path("nothing")}, "nothing: No such file"),
        ({"program": Path(__file__).with_name("conftest.py")}, "."),
    ],
)
def test_programs_that_cannot_run_there(
    server: Options, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(DeviceError, match=message) as caught:
        opened(replace(server, **{"folder": str(tmp_path / "there"), **changes}))
    assert "\n" not in str(caught.value)


def test_a_network_is_profiled_there(server: Options) -> None:
    device = opened(server)
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

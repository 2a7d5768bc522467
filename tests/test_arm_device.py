"""``jcw profile`` and ``jcw check`` on the aarch64 ``jcw-device``, which an emulator runs on the other end of ssh and adb.

Times under emulation mean nothing; that each file arrives, runs and is answered for does.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from commands import jcw
from core_networks import small_resnet
from remote_servers import Options, adb_device, adb_server, needs_adb, needs_sshd, ssh_server
from stand_in_adbd import Adbd

from jcw_latency.devices.adb import AdbOptions


@pytest.fixture(params=[pytest.param("ssh", marks=needs_sshd), pytest.param("adb", marks=needs_adb)])
def machine(request: pytest.FixtureRequest, aarch64_program: Path, tmp_path: Path) -> Iterator[Options]:
    emulated = {"program": aarch64_program, "launcher": "qemu-aarch64-static -cpu cortex-a72"}
    if request.param == "ssh":
        with ssh_server(tmp_path) as options:
            yield replace(options, **emulated)
    else:
        with adb_server(tmp_path), adb_device(Adbd(), tmp_path) as options:
            yield replace(options, **emulated)


def test_a_network_is_profiled_and_checked(machine: Options, tmp_path: Path) -> None:
    name = "adb" if isinstance(machine, AdbOptions) else "ssh"
    values = {field.name: getattr(machine, field.name) for field in fields(machine)}
    given = [f"--option={key}={value}" for key, value in values.items() if value not in ("", None)]
    (tmp_path / "network.json").write_text(small_resnet().to_json())
    quick = ["widths=2", "densities=2", "min_rounds=2", "rounds=3", "whole_networks=6", "check_rounds=2"]
    settings = [f"--set={pair}" for pair in quick]
    done = jcw("profile", "network.json", "--device", name, *given, *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = jcw("table", "show", "table.npz", cwd=tmp_path)
    assert name in shown.stdout
    assert "neon" in shown.stdout
    done = jcw("check", "table.npz", *given, "--networks", "3", "--rounds", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["networks"], found["method"]) == (3, "networks")
    assert all(point["measured_ms"] > 0 for point in found["points"])
    # Copied once by two commands, and tidied up.
    (there,) = Path(machine.folder).iterdir()
    assert there.read_bytes() == machine.program.read_bytes()


CORES = """\
processor\t: 0
BogoMIPS\t: 38.40
CPU part\t: 0xd05

processor\t: 1
CPU part\t: 0xd0b

Hardware\t: a phone
"""


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="takes a machine with two cores")
def test_the_processor_is_named_by_the_core_that_runs(aarch64_program: Path, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(CORES)
    for mask, name in (("1", "Cortex-A55"), ("2", "Cortex-A76"), ("3", "Cortex-A55")):
        command = ["taskset", mask, "qemu-aarch64-static", "-L", tmp_path, aarch64_program, "describe"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["cpu"].partition(",")[0] == name

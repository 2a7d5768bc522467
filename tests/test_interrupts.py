"""Commands that are interrupted, or time out, while the engine works: one line, and no abort."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commands import start, wait_for

LONG = ("--networks", "10", "--rounds", "800")
"""Calls of a minute, in which the engine comes back to Python every 20 ms."""


@pytest.fixture
def folder(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table, where commands put their temporary files too."""
    shutil.copy(workspace / "table.npz", tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def last_line(process: subprocess.Popen[str], status: int) -> str:
    """What a process says at its end, beside progress."""
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status, errors
    (line,) = (line for line in errors.splitlines() if line and not line.startswith(("[", "  ")))
    return line


@pytest.mark.parametrize(
    ("arguments", "measuring", "note"),
    [
        (["check", "table.npz", *LONG], "jcw-check-*/check-10.jcw", ""),
        (
            ["profile", "resnet18", "--device", "host", "--input-size", "32", "-o", "made.npz"],
            "jcw-profile-*/check-10.jcw",
            "; the same command continues from made.npz.partial",
        ),
    ],
)
def test_an_interrupt(folder: Path, arguments: list[str], measuring: str, note: str) -> None:
    process = start(*arguments, cwd=folder)
    wait_for(process, lambda: list(folder.glob(measuring)))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert last_line(process, 130) == f"jcw: interrupted{note}"


def test_a_timeout(folder: Path) -> None:
    process = start("check", "table.npz", *LONG, "--timeout", "1", cwd=folder)
    assert last_line(process, 2).startswith("jcw: HostDevice has not answered for 1 s; look after")

"""The installed ``jcw`` command, as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO


def jcw(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    return subprocess.run(command(*arguments), cwd=cwd, env=environment(), capture_output=True, text=True)


def start(*arguments: str, cwd: Path, stderr: int | TextIO = subprocess.PIPE) -> subprocess.Popen[str]:
    """The installed command under way, as a shell starts it that lets it be interrupted."""
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        # A shell that starts pytest in the background has it, and what it starts, ignore interrupts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(process: subprocess.Popen[str], reached: Callable[[], object]) -> None:
    """Until ``reached`` is true. Fails when the process ends before."""
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "jcw_core", *arguments]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}

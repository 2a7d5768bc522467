"""The installed ``jcw`` command, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def jcw(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    return subprocess.run(command(*arguments), cwd=cwd, env=environment(), capture_output=True, text=True)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "jcw_core", *arguments]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}

"""Starting a program in several processes, as ``torchrun`` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def launcher(*program: str, processes: int = 2) -> list[str]:
    """The command that starts ``processes`` of a script, or of ``-m`` and a module, with their arguments."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    return [*torchrun, "--standalone", "--nproc-per-node", str(processes), *program]


def environment() -> dict[str, str]:
    """For processes that find the modules of these tests, and take a thread each."""
    folders = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(folders),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }


def launch(*program: str, cwd: Path, processes: int = 2) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        launcher(*program, processes=processes),
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )

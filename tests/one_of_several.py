"""``jcw`` as one of several processes, of which the second meets with something.

one_of_several.py killed-when FILE ARGUMENTS OF JCW
one_of_several.py works-in FOLDER ARGUMENTS OF JCW
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path


def kill_when(file: Path) -> None:
    """Kill this process when a file is there."""
    while not file.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def main(what: str, where: str, *arguments: str) -> None:
    from jcw_core.cli.entry import main as jcw

    if os.environ["RANK"] == "1" and what == "killed-when":
        threading.Thread(target=kill_when, args=(Path(where),), daemon=True).start()
    if os.environ["RANK"] == "1" and what == "works-in":
        os.chdir(where)
    sys.argv = ["jcw", *arguments]
    jcw()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A process ends even where a call does not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jcw_core.cli import background

LEAVING = """
import atexit, threading
from jcw_core.cli import background

called = threading.Event()

def call():
    called.set()
    if {hangs}:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

atexit.register(print, "and in order")
thread = background.start(call)
called.wait()
if not {hangs}:
    thread.join()
print("ended", end=" ")
background.leave(3)
"""


@pytest.mark.parametrize(("hangs", "expected"), [(True, "ended "), (False, "ended and in order\n")])
def test_a_call_in_progress_spares_the_process_the_interpreters_end(hangs: bool, expected: str) -> None:
    code = LEAVING.format(hangs=hangs)
    # With a buffer, which has to be written out.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, expected, "")


def test_an_interrupt_of_code_that_is_a_string_leaves_the_status_as_it_is(tmp_path: Path) -> None:
    tmp_path.joinpath("interrupted.py").write_text(
        "from contextlib import suppress\n"
        "from jcw_core.cli import background\n"
        "with suppress(KeyboardInterrupt):\n"
        "    exec('raise KeyboardInterrupt')\n"
        "background.leave(3)\n"
    )
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, timeout=60)
    assert done.returncode == 3


def test_an_interrupt_while_a_thread_begins_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one reaches the condition on which ``Thread.start`` waits while it takes its lock back."""

    class Interrupted(threading.Condition):
        def _acquire_restore(self, state: object) -> None:
            raise KeyboardInterrupt

    began = threading.Event()
    began._cond = Interrupted(threading.Lock())  # type: ignore[attr-defined]
    monkeypatch.setattr(threading.Thread, "start", lambda thread: began.wait(0.01))
    with pytest.raises(KeyboardInterrupt):
        background.start(lambda: None)

"""A small run, killed before every change that it makes to its files and then gone on with."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test_pipeline import ToyStage, make

from jcw_core.files import atomic, write_json
from jcw_core.run.context import Context
from jcw_core.run.pipeline import run

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "tempfile.mkstemp", "os.chmod"}
"""Audit events of what changes a folder; ``open`` counts when it writes."""
TIMES = {"seconds", "ended"}
"""What records of the same stages differ in."""


class Killer:
    """Ends the process before its ``last`` change below ``root``; counts them when it is None."""

    def __init__(self, root: Path, last: int | None) -> None:
        self.root, self.last, self.seen = str(root), last, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if not (writes or event in CHANGES):
            return
        if self.last is not None and self.seen == self.last:
            os._exit(9)
        self.seen += 1


@dataclass
class Saving(ToyStage):
    """Keeps checkpoints, and writes as the real stages do."""

    @property
    def makes(self) -> tuple[str, ...]:
        return (f"{self.name}/index.json",)

    def run(self, context: Context) -> Sequence[str]:
        scratch = context.scratch(self.name)
        with atomic(scratch / "inner" / "epoch.npz") as temporary:
            temporary.write_text("checkpoint")
        text = "".join(context.path(name).read_text() for name in self.needed) + self.name
        extra = f"{self.name}/weights"
        with atomic(context.path(extra)) as temporary:
            temporary.write_text(text)
        write_json(context.path(self.makes[0]), {"text": text})
        return (extra,)


def once(folder: Path, last: int | None) -> Killer:
    """One run of two stages, or what it comes to before it is killed."""
    folder.mkdir(exist_ok=True)
    context = make(folder, [Saving("one"), Saving("two", ("one/index.json",))])
    killer = Killer(context.directory.root, last)
    sys.addaudithook(killer)
    run(context, "two")
    return killer


def in_child(folder: Path, last: int | None) -> int:
    """The same in a process of its own; the exit status."""
    child = os.fork()
    if child == 0:
        once(folder, last)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tree(folder: Path) -> dict[str, object]:
    """Every file's content, but for when stages ended and how long they took."""
    root = folder / "runs"
    return {str(path.relative_to(root)): content(path) for path in sorted(root.rglob("*"))}


def content(path: Path) -> object:
    if path.parent.name != ".state" or not path.is_file():
        return path.read_bytes() if path.is_file() else None
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in TIMES}


def main(root: Path) -> None:
    """Print how many points there were, and those after which the files were not the same."""
    assert in_child(root / "whole", None) == 0
    whole, wrong, last = tree(root / "whole"), [], 0
    while True:
        folder = root / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        status = in_child(folder, last)
        assert status in (0, 9), status
        if status == 0:
            break
        if last % 4 == 0:  # killed once more, while it puts away what is left behind
            in_child(folder, last % 7)
        assert in_child(folder, None) == 0
        if tree(folder) != whole:
            wrong.append(last)
        last += 1
    print(last, wrong)


if __name__ == "__main__":
    os.fsync = lambda handle: None  # the machine itself stays on
    main(Path(sys.argv[1]))

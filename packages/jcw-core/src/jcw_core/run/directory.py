"""The directory of one run: where each file lies, and which stages have nothing left to do."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jcw_core.errors import JcwError
from jcw_core.files import atomic, digest, read_json, write_json


class RunDirectory:
    """One run's files. Stages write below ``root``; ``.state/`` holds what resuming needs.

    A stage is finished when ``.state/NAME.json`` names the same inputs as now and the outputs
    that it lists are there unchanged.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Where the file ``name`` of this run lies."""
        return self.root / name

    def scratch(self, stage: str) -> Path:
        """A folder for a stage's checkpoints; removed when the stage has finished."""
        folder = self.root / ".state" / stage
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def claim_scratch(self, stage: str, key: str) -> None:
        """Empty a stage's scratch folder unless its checkpoints were made from the inputs ``key``."""
        owner = self.scratch(stage) / "inputs"
        if not owner.is_file() or owner.read_bytes() != key.encode():
            shutil.rmtree(owner.parent)
            with atomic(self.scratch(stage) / "inputs") as temporary:
                temporary.write_text(key, encoding="utf-8")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; the lock ends with the process, however it ends.

        Raises:
            JcwError: another process holds it.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise JcwError(f"{self.root}: another process is working on this run; wait for it") from None
            yield
        finally:
            os.close(descriptor)

    def inputs_key(self, parts: Mapping[str, str], files: Mapping[str, Path]) -> str:
        """Fingerprint of a stage's inputs: text by name, and files by content."""
        content = {name: digest(path) for name, path in sorted(files.items())}
        text = json.dumps([dict(sorted(parts.items())), content])
        return hashlib.sha256(text.encode()).hexdigest()

    def is_finished(self, stage: str, key: str) -> bool:
        """True when the outputs of ``stage`` are there and were made from the inputs ``key``."""
        record = self._record(stage)
        if not record.is_file():
            return False
        try:
            document = read_json(record)
            outputs = dict(document["outputs"])
        except (JcwError, KeyError, TypeError, ValueError):
            return False
        return document.get("inputs") == key and all(
            digest(self.path(name)) == found for name, found in outputs.items()
        )

    def finish(self, stage: str, key: str, outputs: tuple[str, ...]) -> None:
        """Record that ``outputs`` are complete."""
        write_json(
            self._record(stage), {"inputs": key, "outputs": {n: digest(self.path(n)) for n in outputs}}
        )
        shutil.rmtree(self.scratch(stage))

    def _record(self, stage: str) -> Path:
        return self.root / ".state" / f"{stage}.json"

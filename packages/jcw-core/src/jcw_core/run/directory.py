"""The directory of one run: where each file lies, and which stages have nothing left to do."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from jcw_core.errors import JcwError
from jcw_core.files import atomic, digest, read_json, remove_abandoned, write_json
from jcw_core.run.records.values import is_amount

_ENDED = ".ended"
"""End of the name of a record whose stage has ended, but may have its scratch folder still."""


class RunDirectory:
    """One run's files. Stages write below ``root``; ``.state/`` holds what resuming needs.

    A stage is finished when ``.state/NAME.json`` names the same inputs as now and the outputs
    that it lists are there unchanged. That record comes last, when nothing of the stage is left to put
    away: until then it is ``.state/NAME.ended``, so that a stage killed in between is not run again.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Where the file ``name`` of this run lies."""
        return self.root / name

    def scratch(self, stage: str) -> Path:
        """A folder for a stage's checkpoints; removed when the stage has finished."""
        folder = self.scratch_if_any(stage)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def scratch_if_any(self, stage: str) -> Path:
        """The same folder, which is there only where the stage has begun and not ended."""
        return self.root / ".state" / stage

    def claim_scratch(self, stage: str, key: str) -> bool:
        """Empty a stage's scratch folder unless its checkpoints were made from the inputs ``key``.

        Returns:
            True where something was begun from other inputs.
        """
        owner = self.scratch(stage) / "inputs"
        begun = owner.is_file()
        if begun and owner.read_bytes() == key.encode():
            return False
        shutil.rmtree(owner.parent)
        with atomic(self.scratch(stage) / "inputs") as temporary:
            temporary.write_text(key, encoding="utf-8")
        return begun

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; the lock ends with the process, however it ends.

        What a process that was killed left half done is put away first.

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
            remove_abandoned(self.root)
            for ended in sorted((self.root / ".state").glob(f"*{_ENDED}")):
                self._put_away(ended.stem)
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

    def outputs(self, stage: str) -> list[str]:
        """The files that ``stage`` wrote when it last ended; none where that is not known."""
        try:
            return sorted(map(str, read_json(self._record(stage))["outputs"]))
        except (JcwError, KeyError, TypeError):
            return []

    def durations(self) -> dict[str, float]:
        """Seconds that each finished stage took, in the order in which they ended.

        Stages that ended before durations were recorded are left out.
        """
        found = []
        for record in (self.root / ".state").glob("*.json"):
            with suppress(JcwError, AttributeError):
                document = read_json(record)
                seconds, ended = document.get("seconds"), document.get("ended")
                if seconds is not None and is_amount(seconds) and isinstance(ended, str):
                    found.append((ended, record.stem, float(seconds)))
        return {stage: seconds for _, stage, seconds in sorted(found)}

    def finish(self, stage: str, key: str, outputs: tuple[str, ...], seconds: float | None = None) -> None:
        """Record that ``outputs`` are complete.

        Args:
            stage: which has ended.
            key: of its inputs.
            outputs: its files.
            seconds: that it took; None where nobody knows.
        """
        found = {name: digest(self.path(name)) for name in outputs}
        ended = datetime.now(UTC).isoformat(timespec="microseconds")
        record = {"inputs": key, "outputs": found, "seconds": seconds, "ended": ended}
        write_json(self._record(stage).with_suffix(_ENDED), record)
        self._put_away(stage)

    def _put_away(self, stage: str) -> None:
        """Remove the scratch folder of a stage that has ended, then let its record hold."""
        shutil.rmtree(self.scratch(stage))
        self._record(stage).with_suffix(_ENDED).replace(self._record(stage))

    def _record(self, stage: str) -> Path:
        return self.root / ".state" / f"{stage}.json"

"""What a run tells of itself while it works is there for as long as that, and harms it in no way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jcw_core.errors import FormatError
from jcw_core.protocols import Progress
from jcw_core.registry import Registry
from jcw_core.run.pipeline import StageEvent
from jcw_core.run.standing import STANDING, Standing, telling

NOW = Standing("search", 2, 5, ("profile", "supernet"), 100.0, 101.5, "generation", 3, 12, ("better",))


@pytest.fixture
def registry() -> Registry:
    return Registry(installed=False)


def test_the_file_says_what_was_told_and_ends_with_the_last_stage(tmp_path: Path, registry: Registry) -> None:
    with telling(tmp_path, registry) as stage:
        stage(StageEvent("profile", "skipped", 0, 2))
        assert Standing.read(tmp_path) is None
        stage(StageEvent("search", "started", 1, 2))
        found = Standing.read(tmp_path)
        assert found is not None
        assert (found.stage, found.place, found.finished, found.total) == ("search", 1, ("profile",), 0)
        registry.progress(Progress("search", "generation", 1, 12, "first"))
        registry.progress(Progress("other", "generation", 5, 12, "of another"))
        registry.progress(Progress("search", "note", 0, 0, "a message"))
        registry.progress(Progress("search", "generation", 12, 12, "last"))
        found = Standing.read(tmp_path)
        assert found is not None
        assert (found.unit, found.done, found.total) == ("generation", 12, 12)
        assert found.lately == ("first", "a message", "last")
        stage(StageEvent("search", "ended", 1, 2))
        assert not (tmp_path / STANDING).exists()
    assert registry.failures == {}


def test_the_file_ends_with_an_error_too(tmp_path: Path, registry: Registry) -> None:
    def interrupted() -> None:
        with telling(tmp_path, registry) as stage:
            stage(StageEvent("search", "started", 0, 1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_writes_stays(tmp_path: Path, registry: Registry) -> None:
    with telling(tmp_path, registry) as stage:
        stage(StageEvent("search", "started", 0, 2))
        NOW.write(tmp_path)
    assert Standing.read(tmp_path) == NOW


def test_a_folder_that_cannot_be_written_ends_no_run(tmp_path: Path, registry: Registry) -> None:
    with telling(tmp_path / "file", registry) as stage:
        (tmp_path / "file").write_text("in the way")
        stage(StageEvent("search", "started", 0, 1))
        registry.progress(Progress("search", "generation", 1, 1))


@pytest.mark.parametrize(
    ("key", "value"),
    [("stage", 3), ("place", -1), ("total", "12"), ("began", None), ("lately", "better"), ("finished", [1])],
)
def test_a_damaged_file_is_named(tmp_path: Path, key: str, value: object) -> None:
    replace(NOW, **{key: value}).write(tmp_path)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=rf"{STANDING}: {key} is "):
        Standing.read(tmp_path)

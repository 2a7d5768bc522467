"""Files are whole or not there, and damaged ones are one error."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jcw_core.errors import FormatError
from jcw_core.files import atomic, digest, read_json, require_writable, write_json

WRITER = """
import sys
from pathlib import Path
from jcw_core.files import atomic
path, number = Path(sys.argv[1]), 0
print("ready", flush=True)
while True:
    number += 1
    with atomic(path) as temporary:
        with temporary.open("w") as file:
            for _ in range(2000):
                file.write(f"{number}\\n")
"""


@pytest.mark.parametrize("milliseconds", [1, 5, 12, 25, 40])
def test_a_writer_that_is_killed_leaves_a_whole_file(tmp_path: Path, milliseconds: int) -> None:
    path = tmp_path / "file"
    path.write_text("0\n" * 2000)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(milliseconds / 1000)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    lines = path.read_text().split()
    assert len(lines) == 2000
    assert len(set(lines)) == 1


def test_an_error_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with atomic(path) as temporary:
        temporary.write_text("old")

    def fail() -> None:
        with atomic(path) as temporary:
            temporary.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def left_by_a_killed_writer(path: Path, *, age: float) -> Path:
    """The temporary file of a process that was killed ``age`` seconds ago."""
    before = set(path.parent.iterdir())
    code = WRITER.replace("for _ in range(2000):", "print('open', flush=True)\n            while True:")
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() + writer.stdout.readline() == b"ready\nopen\n"
        writer.kill()
    (left,) = set(path.parent.iterdir()) - before
    os.utime(left, (time.time() - age,) * 2)
    return left


def test_temporary_files_of_killed_writers_are_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "[1].json"
    old = [left_by_a_killed_writer(path, age=3600) for _ in range(2)]
    assert not old[0].exists()
    assert old[1].exists()
    young = left_by_a_killed_writer(path, age=0)
    another = left_by_a_killed_writer(tmp_path / "1.json", age=3600)
    editor = tmp_path / ".[1].json.swp"
    editor.touch()
    os.utime(editor, (0, 0))
    write_json(path, {})
    assert set(tmp_path.iterdir()) == {path, young, another, editor}


def test_two_writers_of_one_file_leave_each_other_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic(path) as slow:
        slow.write_text("slow")
        os.utime(slow, (0, 0))
        with atomic(path) as fast:
            fast.write_text("fast")
        assert path.read_text() == "fast"
    assert path.read_text() == "slow"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "name", ["folder", "pipe", ".", "..", "/", "file/inside", "file/deep/inside", "n" * 250, "/proc/none"]
)
def test_a_path_that_cannot_be_written_is_named_before_and_while_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    os.mkfifo("pipe")

    def write() -> None:
        with atomic(Path(name)) as temporary:
            temporary.write_text("new")

    for attempt in (write, lambda: require_writable(Path(name))):
        with pytest.raises(OSError, match=r".") as caught:
            attempt()
        assert caught.value.filename == name
    assert {p.name for p in tmp_path.iterdir()} == {"folder", "file", "pipe"}


def test_asking_whether_a_file_can_be_written_changes_no_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    for name in ("old", "link", "folder/new"):
        require_writable(tmp_path / name)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "link", "old"]
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_text() == "old"


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_half_way_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with largest_file(1000), pytest.raises(OSError, match="too large") as caught:
        write_json(path, ["word"] * 1000)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["fsync", "umask", "replace"])
def test_an_error_after_writing_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="quota") as caught:
        write_json(tmp_path / "file", {})
    assert caught.value.filename == str(tmp_path / "file")


def test_an_error_of_another_file_names_that_file(tmp_path: Path) -> None:
    def copy() -> None:
        with atomic(tmp_path / "file") as temporary:
            temporary.write_text(Path("/none/other").read_text())

    with pytest.raises(FileNotFoundError) as caught:
        copy()
    assert str(caught.value.filename) == "/none/other"


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_json(tmp_path / "file", {})
    finally:
        os.umask(old)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_json_is_written_for_people_and_without_nan(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"format": "kind/1", "value": 1.5})
    assert read_json(path, kind="kind/1") == {"format": "kind/1", "value": 1.5}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"value": float("nan")})
    assert read_json(path)["value"] == 1.5


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"nonsense"])
def test_text_that_is_not_json_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"file\.json: not a JSON file"):
        read_json(path)


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.json: no such file"):
        read_json(tmp_path / "none.json")
    with pytest.raises(FormatError, match="not a JSON file"):
        read_json(tmp_path)
    for document in ({"format": "other/1"}, [], None, {}):
        write_json(tmp_path / "file.json", document)
        with pytest.raises(FormatError, match="expected 'kind/1'"):
            read_json(tmp_path / "file.json", kind="kind/1")


def test_digest_changes_with_files_and_their_contents(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    found = [digest(path)]
    path.parent.mkdir()
    path.write_text("one")
    found += [digest(path), digest(path.parent)]
    path.write_text("three")
    found += [digest(path), digest(path.parent)]
    (path.parent / "other").touch()
    found.append(digest(path.parent))
    assert len(set(found)) == len(found)
    assert found[0] == "absent"

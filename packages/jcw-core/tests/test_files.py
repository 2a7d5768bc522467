"""Files are whole or not there, and damaged ones are one error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.architecture import Architecture
from jcw_core.errors import FormatError, JcwError
from jcw_core.files import atomic, digest, read_json, write_json
from jcw_core.records import Candidate, ChosenModel, Front
from jcw_core.run_directory import RunDirectory

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


def test_what_killed_writers_left_is_removed_by_the_next(tmp_path: Path) -> None:
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
def test_what_is_no_json(tmp_path: Path, content: bytes) -> None:
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


def test_digest_changes_with_what_is_there(tmp_path: Path) -> None:
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


FRONT = Front(
    "net",
    {"latency": "ms", "error": ""},
    [Candidate(Architecture({"a": 4}, {"l": 0.5}), {"latency": 1.5, "error": 0.25})],
    {"generations": 2},
)
MODEL = ChosenModel("m1", Architecture({"a": 4}, {}), 1.0, 0.9, 0.1, 100, "models/m1.safetensors")


def test_records_read_what_they_wrote(tmp_path: Path) -> None:
    FRONT.write(tmp_path / "front.json")
    assert Front.read(tmp_path / "front.json") == FRONT
    ChosenModel.write_all(tmp_path / "index.json", [MODEL])
    assert ChosenModel.read_all(tmp_path / "index.json") == [MODEL]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", ""), ("id", 3), ("weights", None), ("kept_weights", 1.5), ("kept_weights", True), ("kept_weights", -1),
        ("requested_latency_ms", "fast"), ("requested_latency_ms", float("nan")), ("search_error", [0.1]),
        ("predicted_latency_ms", -1.0), ("predicted_latency_ms", float("inf")), ("architecture", {"widths": 3}),
    ],
)  # fmt: skip
def test_bad_values_of_models_are_named(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "index.json"
    ChosenModel.write_all(path, [MODEL, replace(MODEL, id="m2")])
    document = json.loads(path.read_text())
    document["models"][1][key] = value
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=rf"index\.json: models\[1\]\.{key}"):
        ChosenModel.read_all(path)


def test_models_that_share_a_name_or_lack_a_key(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    ChosenModel.write_all(path, [MODEL, MODEL])
    with pytest.raises(FormatError, match=r"index\.json: two models have the id 'm1'"):
        ChosenModel.read_all(path)
    document = json.loads(path.read_text())
    for rows, message in (
        (None, "models is None"),
        ([7], r"models\[0\]: found 7"),
        ([{}], r".*expected the keys"),
    ):
        write_json(path, {**document, "models": rows})
        with pytest.raises(FormatError, match=rf"index\.json: {message}"):
            ChosenModel.read_all(path)


_values = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
)


@given(st.data())
def test_damaged_records_are_one_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("records") / "record.json"
    kind = data.draw(st.sampled_from(["front", "models"]))
    FRONT.write(path) if kind == "front" else ChosenModel.write_all(path, [MODEL])
    document = json.loads(path.read_text())
    parent, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(parent[key], (dict, list)) and parent[key] and data.draw(st.booleans()):
        parent = parent[key]
        key = data.draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
    if data.draw(st.booleans()):
        parent[key] = data.draw(_values)
    else:
        del parent[key]
    path.write_text(json.dumps(document))
    try:
        (Front.read if kind == "front" else ChosenModel.read_all)(path)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017


def test_a_run_is_worked_on_by_one_process(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    code = (
        "import sys\nfrom pathlib import Path\nfrom jcw_core.run_directory import RunDirectory\n"
        "with RunDirectory(Path(sys.argv[1])).locked():\n    print('locked', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(directory.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(JcwError, match="another process is working on this run"), directory.locked():
            pass
        other.kill()
        other.wait()
        with directory.locked():
            pass


def test_a_stage_is_finished_until_inputs_or_outputs_change(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    (tmp_path / "input").write_text("in")
    (tmp_path / "output").write_text("out")

    def key(option: str = "1") -> str:
        return directory.inputs_key({"option": option}, {"input": tmp_path / "input"})

    first = key()
    assert not directory.is_finished("stage", first)
    checkpoint = directory.scratch("stage") / "checkpoint"
    checkpoint.touch()
    directory.finish("stage", first, ("output",))
    assert directory.is_finished("stage", first)
    assert not checkpoint.exists()
    assert not directory.is_finished("stage", key("2"))
    (tmp_path / "input").write_text("other")
    assert not directory.is_finished("stage", key())
    (tmp_path / "output").write_text("damaged")
    assert not directory.is_finished("stage", first)


@pytest.mark.parametrize("record", ["", "[]", "3", '{"inputs": "k"}', '{"inputs": "k", "outputs": 5}'])
def test_a_damaged_record_means_not_finished(tmp_path: Path, record: str) -> None:
    directory = RunDirectory(tmp_path)
    directory.scratch("stage")
    directory.finish("stage", "k", ())
    (tmp_path / ".state" / "stage.json").write_text(record)
    assert not directory.is_finished("stage", "k")


def test_checkpoints_of_other_inputs_are_dropped(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.claim_scratch("stage", "one")
    checkpoint = directory.scratch("stage") / "checkpoint"
    checkpoint.touch()
    directory.claim_scratch("stage", "one")
    assert checkpoint.exists()
    directory.claim_scratch("stage", "two")
    assert not checkpoint.exists()

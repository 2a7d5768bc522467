"""Run directories: one process at a time, and what is finished stays so until its inputs change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jcw_core.errors import JcwError
from jcw_core.files import atomic
from jcw_core.run.directory import RunDirectory


def test_a_run_is_worked_on_by_one_process(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    code = (
        "import sys\nfrom pathlib import Path\nfrom jcw_core.run.directory import RunDirectory\n"
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


@pytest.mark.parametrize("owner", [b"\xff\xfe", b"", b"on"])
def test_checkpoints_of_a_damaged_owner_are_dropped(tmp_path: Path, owner: bytes) -> None:
    directory = RunDirectory(tmp_path)
    directory.claim_scratch("stage", "one")
    (directory.scratch("stage") / "inputs").write_bytes(owner)
    (directory.scratch("stage") / "checkpoint").touch()
    directory.claim_scratch("stage", "one")
    assert [path.name for path in directory.scratch("stage").iterdir()] == ["inputs"]


def test_checkpoints_of_other_inputs_are_dropped(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert not directory.claim_scratch("stage", "one")
    checkpoint = directory.scratch("stage") / "checkpoint"
    checkpoint.touch()
    assert not directory.claim_scratch("stage", "one")
    assert checkpoint.exists()
    assert directory.claim_scratch("stage", "two")
    assert not checkpoint.exists()


def test_a_run_that_is_killed_anywhere_leaves_nothing_behind(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_runs.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points, wrong = done.stdout.split(maxsplit=1)
    assert int(points) > 60
    assert wrong == "[]\n"


def test_what_a_killed_process_left_is_put_away_and_what_another_writes_is_not(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    key = directory.inputs_key({}, {})
    (tmp_path / "models").mkdir()
    left = [tmp_path / ".a.x.jcw-part", tmp_path / "models" / ".b.y.jcw-part"]
    for path in left:
        path.touch()
    (directory.scratch("stage") / "checkpoint").touch()
    (tmp_path / ".state" / "stage.ended").write_text(json.dumps({"inputs": key, "outputs": {}}))
    assert not directory.is_finished("stage", key)
    with atomic(tmp_path / "models" / "c") as busy, directory.locked():
        busy.write_text("c")
        assert directory.is_finished("stage", key)
    assert not any(path.exists() for path in left)
    assert (tmp_path / "models" / "c").read_text() == "c"
    assert sorted(path.name for path in (tmp_path / ".state").iterdir()) == ["stage.json"]

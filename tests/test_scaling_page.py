"""docs/scaling.md: what it starts are commands that ``torchrun`` and ``jcw`` understand, and what it counts is right."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from programs import needs

from jcw_core.cli.main import build
from jcw_core.registry import Registry

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
BENCHMARKS, RESULTS = ROOT / "benchmarks", ROOT / "docs" / "results"


def block(language: str) -> str:
    (found,) = (
        text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if "torchrun" in text
    )
    return str(found)


def words(language: str) -> list[str]:
    """The words after ``torchrun`` of the command that a block starts."""
    text = block(language).replace("\\\n", " ")
    (line,) = re.findall(r"torchrun,? (.*?)\]?$", text, re.MULTILINE)
    return shlex.split(line.replace(",", " ") if language == "yaml" else line)


@pytest.mark.parametrize("language", ["sh", "bash", "yaml"])
def test_commands_are_understood(language: str) -> None:
    run = pytest.importorskip("torch.distributed.run")
    found = run.get_args_parser().parse_args(words(language))
    assert (found.module, found.training_script) == (True, "jcw_core")
    name, *arguments = found.training_script_args
    group: Any = build(Registry())
    command = group.get_command(click.Context(group), name)
    assert command.make_context(name, arguments).params["recipe"].name == "recipe.toml"


@needs("bash")
def test_the_job_of_slurm_is_a_script() -> None:
    done = subprocess.run(["bash", "-n"], input=block("bash"), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"--gpus-per-node=(\d+)", PAGE) == re.findall(r"NNODES\" --nproc-per-node (\d+)", PAGE)


def test_each_pod_starts_a_process_for_each_of_its_gpus() -> None:
    (processes,), (gpus,) = (
        re.findall(rf'{key}: "?(\d+)', block("yaml")) for key in ("nprocPerNode", "nvidia.com/gpu")
    )
    assert processes == gpus


def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that counts."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("training_hours")


def test_the_tables_are_those_of_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = json.loads((RESULTS / "training.json").read_text(encoding="utf-8"))["rows"]
    first = counted(monkeypatch).tables(rows, (1, 2, 8)).split("\n\nmobilenet")[0]
    assert first in PAGE
    assert "resnet18 x 1, 224 pixels" in first


def test_hours_are_counted_from_images_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = counted(monkeypatch)
    found = [[hours.steps(images, mode) for mode in hours.MODES] for images in hours.DATA.values()]
    assert found == [[5_850, 508_950], [14_250, 1_239_750], [149_550, 13_010_850]]
    assert [hours.scored(mode) for mode in hours.MODES] == [64 * 129 * 3780, 64 * 257 * 3780]
    trained, scored = 5_850 * 256 / 3600, 64 * 129 * 3780 / 3 / 3600
    assert hours.search_hours(50_000, "continuous", 100) == pytest.approx((trained + scored) / 100)
    # Of ten devices that share a batch no faster than one, only the scoring is faster.
    assert hours.search_hours(50_000, "continuous", 100, 10, 1.0) == pytest.approx(
        (trained + scored / 10) / 100
    )


@pytest.mark.parametrize(
    ("devices", "two", "speed"), [(1, 1.5, 1), (2, 1.5, 1.5), (8, 2.0, 8), (4, 1.6, 2.286)]
)
def test_devices_share_batches_by_what_two_show(
    monkeypatch: pytest.MonkeyPatch, devices: int, two: float, speed: float
) -> None:
    assert counted(monkeypatch).speed(devices, two) == pytest.approx(speed, rel=1e-3)


def test_models_are_dealt_out_to_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = counted(monkeypatch)
    images = hours.retrained("resnet18")
    assert images == 1_281_167 // 512 * 512 * 240
    assert hours.retrained("mobilenet_v2") == images / 240 * 370
    # The dense network takes two hours, each of the four models one.
    found = [hours.retrain_hours(7200, 2, 1, devices, 1.5) for devices in (1, 2, 3, 5, 8)]
    assert found == pytest.approx([6, 4, 3, 2, 6 / hours.speed(8, 1.5)])


def test_devices_that_were_not_measured_take_hours_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "kind": "peak", "network": "resnet18", "width": 1.0, "pixels": 224, "images": 100, "precision": "bf16",
        "device": "a GPU", "capability": "a GPU", "supernet_ms": 1000.0, "dense_ms": 2000.0,
    }  # fmt: skip
    others = [{"kind": "processes", "network": "resnet18", "capability": "AVX2", "ratio": 1.5}]
    table = counted(monkeypatch).tables([row, *others], (1, 8))
    assert "hours on 1 | hours on 8, at least |" in table
    assert "r = 100, R = 50 images a second; two devices share a batch at twice the rate at most" in table

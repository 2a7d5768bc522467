"""docs/scaling.md: what it starts are commands that ``torchrun`` and ``jcw`` understand, and what it counts is right."""

from __future__ import annotations

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

PAGE = (Path(__file__).parents[1] / "docs" / "scaling.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
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


def test_the_table_has_what_the_formula_gives(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, Any] = {}
    exec(block("python"), scope)
    rows = re.findall(r"^\| .*? \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    expected = [tuple(scope["supernet"](images).values()) for images in scope["DATA"].values()]
    assert [tuple(int(cell.replace(",", "")) for cell in row) for row in rows] == expected
    model = scope["steps"](1_281_167, 512, 240)
    assert f"takes {model:,} steps" in PAGE
    assert f"\n{5 * model:,}.\n" in PAGE
    capsys.readouterr()

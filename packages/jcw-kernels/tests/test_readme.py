"""The README's snippets run, and its commands exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from jcw_core.options import Location, parse
from jcw_kernels.commands import kernels
from jcw_kernels.host import HostPlugin

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_a_network_is_compiled_run_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["logits"].shape == (1, 10)
    assert (tmp_path / "model.jcw").is_file()
    densities = [float(line.split()[2]) for line in capsys.readouterr().out.splitlines()]
    assert len(densities) == 5
    assert {0.2, 1.0} <= set(densities), "the first convolution is dense, those behind it are pruned"


def test_the_device_of_the_recipe() -> None:
    (recipe,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    table = tomllib.loads(recipe)["device"]
    assert table.pop("name") == HostPlugin.name
    assert parse(HostPlugin.options, table, Location(README)).threads == 1


@pytest.mark.parametrize("line", re.findall(r"^ +jcw kernels (.*?) *#", TEXT, re.MULTILINE))
def test_commands_are_understood(line: str) -> None:
    name, *words = shlex.split(line)
    command = kernels.get_command(click.Context(kernels), name)
    assert command is not None
    command.make_context(name, words)

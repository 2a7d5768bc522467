"""Snippets of the README and two pages of docs/: commands with their options, Python, recipes."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from latency_samples import SyntheticDevice

from jcw_core.cli.main import build
from jcw_core.options import Location, parse
from jcw_core.registry import Registry
from jcw_latency.commands.arguments import assignments
from jcw_latency.options import LatencyOptions

PACKAGE = Path(__file__).parents[1]
DOCS = PACKAGE.parents[1] / "docs"
PAGES = [
    PACKAGE / "README.md",
    *(page for name in ("profiling", "fidelity") for page in DOCS.glob(f"{name}.md")),
]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
COMMANDS = [line.split(" #")[0].strip() for line in re.findall(r"^\$ (jcw .*)$", TEXT, re.MULTILINE)]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_are_understood(line: str) -> None:
    words = shlex.split(line)[1:]
    command: Any = build(Registry())
    context = click.Context(command)
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(context, name)
        assert command is not None, name
    values = command.make_context(command.name, words).params
    if values.get("settings"):
        parse(LatencyOptions, *assignments("--set", values["settings"]))
    devices = Registry().devices
    if values.get("device_options") and values["device_name"] in devices:
        parse(devices[values["device_name"]].options, *assignments("--option", values["device_options"]))


@pytest.mark.parametrize("recipe", re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL))
def test_devices_in_recipes(recipe: str) -> None:
    table = tomllib.loads(recipe)["device"]
    name = table.pop("name")
    parse(Registry().devices[name].options, table, Location(Path("page")))


def test_python_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"device": SyntheticDevice()}
    exec(compile(code, "README.md", "exec"), names)
    assert names["latency_ms"].shape == (1000,)
    assert (names["latency_ms"] > 0).all()


def test_pages_have_something_to_test() -> None:
    assert len(COMMANDS) >= 3

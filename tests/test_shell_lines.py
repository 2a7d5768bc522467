"""Every command that pages show: ``jcw`` understands it, and what it names of the repository is there."""

from __future__ import annotations

import configparser
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import click
import pytest
from shell_lines import ROOT, Shown, commands

from jcw_core.cli.main import build
from jcw_core.options import assignment
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry

COMMANDS = commands()
KERNELS = ROOT / "packages" / "jcw-kernels"
MINIMAL = """
[network]
backbone = "resnet18"
[data]
name = "fashion_mnist"
path = "images"
"""


def of(*programs: str) -> list[Shown]:
    return [shown for shown in COMMANDS if shown.words[0] in programs]


def test_pages_show_commands() -> None:
    pages = {shown.page for shown in COMMANDS if shown.jcw() is not None}
    assert pages >= {"README.md", "docs/tutorial.md", "docs/scaling.md", "packages/jcw-latency/README.md"}
    assert min(len(of("pip")), len(of("cmake", "emcmake"))) >= 5


@pytest.mark.parametrize("shown", [shown for shown in COMMANDS if shown.jcw() is not None], ids=str)
def test_jcw_understands(shown: Shown, tmp_path: Path) -> None:
    words, command, registry = shown.jcw() or [], cast(Any, build(Registry())), Registry()
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None
    values = command.make_context(command.name, words).params
    if overrides := values.get("overrides"):
        (tmp_path / "recipe.toml").write_text(MINIMAL)
        settings = dict(assignment(text, "--set") for text in overrides)
        assert load_recipe(tmp_path / "recipe.toml", registry, settings).device
    if options := values.get("device_options"):
        name = values["device_name"] or "ssh"  # jcw check takes that of the table, here of a board
        wanted = dict(assignment(text, "--option") for text in options)
        assert wanted.keys() <= {field.name for field in fields(registry.devices[name].options)}


@pytest.mark.parametrize("shown", COMMANDS, ids=str)
def test_paths_of_the_repository_are_there(shown: Shown) -> None:
    paths = [word.partition("[")[0] for word in shown.words]
    named = [path for path in paths if re.match(r"(\./)?(benchmarks|docs|examples|packages|tests)/", path)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("shown", of("pip"), ids=str)
def test_pip_finds_files_packages_and_extras(shown: Shown) -> None:
    for option, value in zip(shown.words, shown.words[1:], strict=False):
        if option in ("-r", "-c"):
            assert (ROOT / value).is_file()
    for package, extras in re.findall(r"\b(jcw-\w+)(?:\[([\w,]+)\])?", str(shown)):
        project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]
        assert set(filter(None, extras.split(","))) <= project.get("optional-dependencies", {}).keys()


@pytest.mark.parametrize("shown", of("cmake", "emcmake"), ids=str)
def test_cmake_finds_its_source_options_and_targets(shown: Shown) -> None:
    files = [KERNELS / "CMakeLists.txt", *KERNELS.glob("cmake/*.cmake")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    for option, value in zip(shown.words, shown.words[1:], strict=False):
        if option == "-S":
            here = KERNELS if shown.page == "packages/jcw-kernels/README.md" else ROOT
            assert (here / value.removeprefix("~/jcw/")).resolve() == KERNELS
        if option == "--target":
            assert re.search(rf"add_(?:executable|library|custom_target)\({value}\b", text)
    for name, value in re.findall(r"-D(\w+)=(\S+)", str(shown)):
        assert not name.startswith("JCW_") or f"option({name} " in text
        if name == "CMAKE_TOOLCHAIN_FILE" and "$" not in value:
            assert (KERNELS / value).is_file()


@pytest.mark.parametrize("shown", of("tox"), ids=str)
def test_tox_has_the_environment(shown: Shown) -> None:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "tox.ini")
    for option, value in zip(shown.words, shown.words[1:], strict=False):
        assert option != "-e" or f"testenv:{value}" in settings


def test_lines_are_taken_apart_as_a_shell_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ jcw show runs/a  # a run\nmade\n```\n\n```sh\n# first\npip install tox && jcw run \\\n    'a b.toml'\n"
        "torchrun -m jcw_core run c\n```\n\n    jcw plugins | less\n    names = 1\n"
    )
    monkeypatch.setattr("shell_lines.ROOT", tmp_path)
    monkeypatch.setattr("shell_lines.PAGES", (page,))
    words = [shown.words for shown in commands()]
    assert words[:3] == [("jcw", "show", "runs/a"), ("pip", "install", "tox"), ("jcw", "run", "a b.toml")]
    assert words[3:] == [("torchrun", "-m", "jcw_core", "run", "c"), ("jcw", "plugins"), ("less",)]
    assert commands()[3].jcw() == ["run", "c"]

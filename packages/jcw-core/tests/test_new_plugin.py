"""``jcw new-plugin``: there is a package for every hook, it appears whole, and what clashes is refused in a line."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jcw_core import hookspecs
from jcw_core.cli.main import build
from jcw_core.new_plugin import package
from jcw_core.new_plugin.kinds import KINDS
from jcw_core.new_plugin.names import Names
from jcw_core.registry import Registry


def jcw(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    monkeypatch.chdir(folder)
    return CliRunner().invoke(build(Registry()), ["new-plugin", *arguments])


def test_every_hook_that_registers_has_a_kind() -> None:
    registering = {name for name in vars(hookspecs) if name.startswith("jcw_register_")}
    assert {kind.hook for kind in KINDS.values()} == registering | {"jcw_progress"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_those_of_a_package(kind: str) -> None:
    files = package.contents(kind, Names("jcw-own-thing"))
    assert set(files) == {
        "pyproject.toml",
        "README.md",
        "src/jcw_own_thing/__init__.py",
        f"src/jcw_own_thing/{kind}.py",
        "tests/test_plugin.py",
    }
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["entry-points"]["jcw"] == {"jcw_own_thing": "jcw_own_thing"}
    assert re.fullmatch(r"jcw-core>=\d+(\.\w+)+", *project["dependencies"])
    for place, text in files.items():
        assert "$" not in text, place
        assert max(map(len, text.splitlines())) <= 125, place
        if place.endswith(".py"):
            assert ast.get_docstring(ast.parse(text)), place


def test_what_is_printed_leads_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = jcw(tmp_path, monkeypatch, "jcw-lottery", "--kind", "selection")
    assert done.output.splitlines() == [
        "jcw-lottery: a selection strategy called lottery; change jcw-lottery/src/jcw_lottery/selection.py",
        "pip install -e './jcw-lottery[test]' && pytest jcw-lottery",
    ]
    assert 'name = "lottery"' in (tmp_path / "jcw-lottery/src/jcw_lottery/selection.py").read_text()
    assert oct((tmp_path / "jcw-lottery").stat().st_mode) == oct(
        (tmp_path / "jcw-lottery/src").stat().st_mode
    )
    assert [path.name for path in tmp_path.iterdir()] == ["jcw-lottery"]


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("Lottery", "selection", "'Lottery' names no package; take small letters"),
        ("../lottery", "selection", "names no package"),
        ("a--b", "selection", "names no package"),
        ("class", "selection", "names no package"),
        ("jcw-", "selection", "names no package"),
        ("json", "selection", "a module 'json' is installed already"),
        ("jcw-core", "selection", "a module 'jcw_core' is installed already"),
        ("jcw-resnet18", "backbone", "'resnet18' is the name of another backbone"),
        ("jcw-front", "stage", "'front' is the name of another stage, or of its file"),
        ("jcw-device", "report", "'device' is the name of another report"),
        ("jcw-run", "command", "'run' is the name of another command"),
        ("there", "device", "there: is there already; give another name"),
        ("link", "device", "link: is there already; give another name"),
    ],
)
def test_what_clashes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, message: str
) -> None:
    pytest.importorskip("jcw_search", reason="the stage that makes front.json")
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    done = jcw(tmp_path, monkeypatch, name, "--kind", kind)
    assert message in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "there"]
    assert list((tmp_path / "there").iterdir()) == []


def test_a_package_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "contents", lambda *_: {"first": "text", "second": "\udcff"})
    done = jcw(tmp_path, monkeypatch, "jcw-lottery", "--kind", "selection")
    assert isinstance(done.exception, UnicodeEncodeError)
    assert list(tmp_path.iterdir()) == []

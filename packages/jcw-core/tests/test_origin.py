"""A run remembers its recipe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from test_check import RECIPE, Half

from jcw_core.errors import FormatError
from jcw_core.registry import Registry
from jcw_core.run.directory import RunDirectory
from jcw_core.run.origin import ORIGIN, open_run, remember_recipe


@pytest.fixture
def registry() -> Registry:
    from jcw_core import plugin

    return Registry({"half": Half(), "core": plugin}, installed=False)


def test_a_run_is_opened_by_its_folder_alone(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "recipe.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path / "project")
    remember_recipe(RunDirectory(Path("runs/one")), Path("recipe.toml"), ["run.seed=7", "run.name=3"])
    (tmp_path / "project").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    context = open_run(registry, Path("moved/runs/one"))
    assert context.recipe.path == tmp_path / "moved" / "recipe.toml"
    assert (context.recipe.run.seed, context.recipe.run.name) == (7, "3")
    assert context.directory.root == Path("moved/runs/one")


def test_what_is_remembered_is_written_once(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    directory, stamps = RunDirectory(tmp_path / "run"), []
    for settings in (["run.seed=1"], ["run.seed=1"], ["run.seed=2"]):
        remember_recipe(directory, tmp_path / "recipe.toml", settings)
        stamps.append(directory.path(ORIGIN).stat().st_ino)
    assert stamps[0] == stamps[1] != stamps[2]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": "jcw-recipe/1"}', '{"format": "jcw-recipe/1", "recipe": 3}']
)
def test_a_folder_without_a_good_note_is_refused_and_mended(
    tmp_path: Path, registry: Registry, content: str
) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    directory = RunDirectory(tmp_path / "run")
    directory.root.mkdir()
    with pytest.raises(FormatError, match=r"recipe\.json: no such file"):
        open_run(registry, directory.root)
    directory.path(ORIGIN).write_text(content)
    with pytest.raises(FormatError, match=r"recipe\.json"):
        open_run(registry, directory.root)
    assert open_run(registry, directory.root, tmp_path / "recipe.toml").recipe.path.is_file()
    remember_recipe(directory, tmp_path / "recipe.toml")
    open_run(registry, directory.root)
    shutil.move(tmp_path / "recipe.toml", tmp_path / "elsewhere.toml")
    with pytest.raises(FormatError, match=r"recipe\.toml is not there any more; give it with --recipe"):
        open_run(registry, directory.root)

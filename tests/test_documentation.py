"""Every snippet of the README and of the pages beside it: Python is run, and recipes are read."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shell_lines import commands

from jcw_core import errors
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_kernels import compile_model

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_readme_has_snippets() -> None:
    assert len(snippets("python")) == 1
    assert len(snippets("toml")) == 1


def test_the_first_screen_shows_what_to_do_with_a_network_of_ones_own() -> None:
    screen = README.splitlines()[:20]
    assert any(line.startswith("jcw compress ") for line in screen)
    assert not any(line.startswith("![") for line in screen)


@pytest.mark.parametrize("code", snippets("python"))
def test_python_snippets_run(code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after = map(int, re.findall(r"(\d+) M", done.stdout))
    assert after < before


def test_a_model_runs_as_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = snippets("py")
    (path,) = re.findall(r'"(.*\.jcw)"', code)
    b = NetworkBuilder("tiny", (3, 8, 8))
    b.conv("conv", 4, 1)
    network = b.build()
    (tmp_path / path).parent.mkdir(parents=True)
    weights = {name: np.ones(shape, np.float32) for name, shape in network.parameter_shapes.items()}
    compile_model(Model(network, weights)).save(tmp_path / path)
    monkeypatch.chdir(tmp_path)
    names = {"images": np.ones((2, 3, 8, 8), np.float32)}
    exec(code, names)
    assert (names["outputs"] == 3 + bool(network["conv"].attributes["bias"])).all()


@pytest.mark.parametrize("text", snippets("toml"))
def test_recipes_in_the_readme_are_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    recipe = load_recipe(tmp_path / "recipe.toml", Registry())
    assert recipe.stages["retrain"].budgets_ms == (10.0, 20.0)


def recipes_in_pages() -> list[tuple[str, dict[str, Any]]]:
    """The tables of recipes that pages other than the README show, with the page that shows them."""
    pages = [*ROOT.glob("packages/*/README.md"), *ROOT.glob("docs/**/*.md")]
    shown = [
        (str(page.relative_to(ROOT)), tomllib.loads(text))
        for page in sorted(pages)
        for text in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    return [(page, tables) for page, tables in shown if "project" not in tables]


@pytest.mark.parametrize(("page", "tables"), recipes_in_pages())
def test_recipes_in_pages_are_valid(page: str, tables: dict[str, Any], tmp_path: Path) -> None:
    whole = {**tables, "data": {"name": "fashion_mnist", "path": "images", **tables.get("data", {})}}
    (tmp_path / "recipe.toml").write_text("[network]\nbackbone = 'resnet18'\n")
    overrides = {f"{name}.{key}": value for name, table in whole.items() for key, value in table.items()}
    if {"network.module", "network.file"} & overrides.keys():
        overrides["network.backbone"] = ""
    assert load_recipe(tmp_path / "recipe.toml", Registry(), overrides).network, page


def test_pages_show_recipes() -> None:
    assert len(recipes_in_pages()) >= 2


def python_in_pages() -> list[tuple[str, str]]:
    """What pages show beside hooks.md, whose plugins have a test of their own."""
    pages = sorted({*ROOT.glob("docs/*.md")} - {ROOT / "docs" / "hooks.md"})
    return [
        (page.name, code)
        for page in pages
        for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]


@pytest.mark.parametrize(("page", "code"), python_in_pages())
def test_python_in_pages_runs(page: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    if page == "tutorial.md":
        pytest.importorskip("torch")
    exec(compile(code, page, "exec"), {})
    if "print(" in code:
        assert capsys.readouterr().out


def test_the_module_of_the_tutorial_is_a_network() -> None:
    torch = pytest.importorskip("torch")
    from jcw_core.formats.torch_import.module import from_module

    scope: dict[str, Any] = {}
    exec(dict(python_in_pages())["tutorial.md"], scope)
    (line,) = (shown for shown in commands() if str(shown).startswith("jcw compress flowers"))
    shape = [int(size) for size in line.words[line.words.index("--shape") + 1].split(",")]
    network = from_module(scope["make"]().eval(), torch.zeros(shape)).network
    assert network.input_shape == tuple(shape[1:])
    assert (network.num_classes, len(network.parameter_shapes)) == (3, 14)


def test_pages_show_python() -> None:
    assert len(python_in_pages()) >= 2


def test_the_page_on_files_has_every_format() -> None:
    """What files say of themselves, as the code writes it; a format that is raised is raised there, too."""
    sources = [*ROOT.glob("packages/*/src/**/*.py")]
    written = {
        f for path in sources for f in re.findall(r'= "(jcw-[a-z-]+/\d+)"', path.read_text(encoding="utf-8"))
    }
    written |= {"jcw-rank-fidelity/1"}  # which stands in the document itself
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(jcw-[a-z-]+/\d+)`", page)) == written


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    network = load_recipe(path, Registry()).network
    assert network.backbone or network.module


def test_pages_that_errors_and_programs_name_are_there() -> None:
    sources = [path.read_text(encoding="utf-8") for path in ROOT.glob("packages/*/src/**/*.py")]
    named = {page for text in sources for page in re.findall(r"\bdocs/[\w/.-]+\.md\b", text)}
    assert named >= {"docs/recipe.md", "docs/files.md", "docs/operations.md", "docs/profiling.md"}
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize(
    "kind", [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.JcwError)]
)
def test_every_kind_of_error_has_a_page(kind: type[errors.JcwError]) -> None:
    """But for the one that stands for all; which page its subclasses name is held above."""
    assert bool(kind.page) == (kind is not errors.JcwError)


@pytest.mark.parametrize(
    "page", ["README.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"

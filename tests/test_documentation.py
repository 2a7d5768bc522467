"""Every Python and TOML snippet in the README is run or read as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_readme_has_snippets() -> None:
    assert len(snippets("python")) == 1
    assert len(snippets("toml")) == 1


@pytest.mark.parametrize("code", snippets("python"))
def test_python_snippets_run(code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after = map(int, re.findall(r"(\d+) M", done.stdout))
    assert after < before


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


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    network = load_recipe(path, Registry()).network
    assert network.backbone or network.module


@pytest.mark.parametrize(
    "page", ["README.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"

"""Every Python and TOML snippet in the README is run or read as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    assert load_recipe(path, Registry()).network.backbone


@pytest.mark.parametrize(
    "page", ["README.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"

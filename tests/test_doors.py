"""What each package gives at its door: names, its version, and how little an import of it takes."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("jcw_core", "jcw_kernels", "jcw_latency", "jcw_retrain", "jcw_search")
LAZY = ("jcw_core", "jcw_retrain")


def folder(package: str) -> Path:
    return ROOT / "packages" / package.replace("_", "-")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_version_is_that_of_the_distribution(package: str) -> None:
    stated = tomllib.loads((folder(package) / "pyproject.toml").read_text())["project"]["version"]
    assert importlib.import_module(package).__version__ == stated


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there_and_listed(package: str) -> None:
    door = importlib.import_module(package)
    assert len(door.__all__) >= 5
    for name in door.__all__:
        assert getattr(door, name) is not None
    assert {*door.__all__, "__version__"} <= set(dir(door))


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_the_names_that_are_found_late(package: str) -> None:
    tree = ast.parse((folder(package) / "src" / package / "__init__.py").read_text())
    imported = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == importlib.import_module(package)._HOMES


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing


@pytest.mark.parametrize(
    ("package", "heavy"),
    [
        ("jcw_core", "numpy"),
        *((package, "torch") for package in PACKAGES),
        *((package, "pandas") for package in PACKAGES[1:]),
    ],
)
def test_an_import_brings_nothing_heavy(package: str, heavy: str) -> None:
    code = f"import sys, {package}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

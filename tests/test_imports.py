"""The star: every package imports jcw_core, none a sibling; torch stays where it belongs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("jcw_core", "jcw_kernels", "jcw_latency", "jcw_retrain", "jcw_search")
SOURCES = sorted(ROOT.glob("packages/*/src/**/*.py"))
EVERYTHING = [
    path
    for folder in ("packages", "examples", "benchmarks", "tests", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "build" not in path.parts
]
COPIES = {"tests/test_copies.py", "packages/jcw-core/tests/supernet/test_supernet_copies.py"}
"""Tests that users may pickle what the packages hand out; they read back only what they have just written."""
UNPICKLING = {"pickle", "cPickle", "_pickle", "dill", "joblib", "shelve", "marshal"}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions and ``TYPE_CHECKING`` as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (
                a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
            )


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[3]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_all_packages_are_walked() -> None:
    assert {package_of(path) for path in SOURCES} == set(PACKAGES)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_packages_import_the_core_and_no_sibling(path: Path) -> None:
    allowed = {package_of(path), "jcw_core"}
    found = {module.split(".")[0] for module in imports(path)} & set(PACKAGES)
    assert found <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_torch_is_imported_in_two_places(path: Path) -> None:
    if (
        any(
            path.is_relative_to(ROOT / "packages/jcw-core/src/jcw_core" / room)
            for room in ("supernet", "training")
        )
        or package_of(path) == "jcw_retrain"
    ):
        return
    modules = set(imports(path))
    assert "torch" not in {module.split(".")[0] for module in modules}
    # Hook functions of the core hand over to the supernet, which needs torch; nothing else may.
    if path.name != "plugin.py":
        assert not any(module.startswith(("jcw_core.supernet", "jcw_core.training")) for module in modules)


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "plugins").glob("*/*.py")), ids=name)
def test_the_plugins_of_the_tests_know_only_the_core(path: Path) -> None:
    found = {module.split(".")[0] for module in imports(path)}
    assert found - sys.stdlib_module_names <= {"jcw_core", "numpy"}


@pytest.mark.parametrize("path", [path for path in EVERYTHING if name(path) not in COPIES], ids=name)
def test_nothing_is_unpickled(path: Path) -> None:
    assert UNPICKLING.isdisjoint(module.split(".")[0] for module in imports(path))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            called = ast.unparse(node.func)
            assert options.get("allow_pickle", "False") == "False", f"{name(path)}:{node.lineno}"
            if called == "torch.load":
                assert options.get("weights_only") == "True", f"{name(path)}:{node.lineno}"

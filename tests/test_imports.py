"""Who may import whom: packages, the rooms inside them, and torch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
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
ROOMS: Mapping[str, Sequence[str]] = {
    "jcw_core": (
        "errors frozen lazy logs names",
        "ranks",
        "frames shown",
        "files options providers network",
        "space",
        "backbones",
        "recipe",
        "protocols",
        "hookspecs datasets plugin_checks",
        "registry training",
        "formats post_training",
        "run",
        "report supernet",
        "cli",
        "begin compress new_plugin watch",
        "plugin __main__",
    ),
    "jcw_search": (
        "errors objectives operators pareto report_section",
        "constraints phases selection state evaluation",
        "mating spread",
        "generations",
        "assisted evolution checkpoint",
        "algorithms handover so_far",
        "uniform",
        "front options search",
        "ask_tell stages",
        "plugin",
    ),
    "jcw_latency": (
        "options table",
        "devices",
        "profiling",
        "fidelity layer_times",
        "objective stages commands",
        "plugin",
    ),
}
"""The order of rooms: a folder of a package or a module at its door imports only what stands in lines above its own.

What is imported from the package itself stands below all of them.
"""
COPIES = {"tests/test_copies.py", "packages/jcw-core/tests/supernet/test_supernet_copies.py"}
"""Tests that users may pickle what the packages hand out; they read back only what they have just written."""
UNPICKLING = {"pickle", "cPickle", "_pickle", "dill", "joblib", "shelve", "marshal"}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions and ``TYPE_CHECKING`` as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"{path}: relative import"
        yield from imported_by(node)


def imported_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "implementation")):
        yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def modules(source: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name; ``source`` is the package's folder."""
    names = {path: path.relative_to(source.parent).with_suffix("").parts for path in source.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in names.items()}


def graph_of(source: Path) -> dict[str, set[str]]:
    """What each module of a package imports of it, for its types alone as well."""
    known = modules(source)
    return {name: set(_targets(path, known)) - {name} for name, path in known.items()}


def _targets(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Members of ``known``; ``from folder import module`` is an import of the module, not of its folder."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inner & known.keys()
            if inner <= known.keys():
                continue
        yield from (module for module in imported_by(node) if module in known)


def circle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules of which each imports the next, and the last is the first; empty if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_from_below(graph: Mapping[str, set[str]], order: Sequence[str]) -> list[str]:
    """Every import of another room that does not stand in a line above the importer's own."""
    rank = {room: number for number, line in enumerate(order) for room in line.split()} | {"": len(order)}
    return [
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in sorted(targets)
        if room_of(module) != room_of(target) and rank[room_of(module)] <= rank[room_of(target)]
    ]


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
def test_torch_is_imported_in_these_rooms_alone(path: Path) -> None:
    if (
        any(
            path.is_relative_to(ROOT / "packages/jcw-core/src/jcw_core" / room)
            for room in ("supernet", "training", "post_training", "formats/torch_import")
        )
        or package_of(path) == "jcw_retrain"
    ):
        return
    modules = set(imports(path))
    assert "torch" not in {module.split(".")[0] for module in modules}
    # Hook functions of the core hand over to the supernet, which needs torch; nothing else may.
    if path.name != "plugin.py":
        assert not any(
            module.startswith(("jcw_core.supernet", "jcw_core.training", "jcw_core.post_training"))
            for module in modules
        )


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


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_among_modules(package: str) -> None:
    assert circle_in(graph_of(folder_of(package))) == []


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_what_stands_above_them(package: str) -> None:
    graph = graph_of(folder_of(package))
    assert {room for line in ROOMS[package] for room in line.split()} == set(map(room_of, graph)) - {""}
    assert imports_from_below(graph, ROOMS[package]) == []


def test_every_package_with_rooms_has_their_order() -> None:
    with_rooms = {package for package in PACKAGES if any(folder_of(package).glob("*/__init__.py"))}
    assert with_rooms == set(ROOMS)


def folder_of(package: str) -> Path:
    return ROOT / "packages" / package.replace("_", "-") / "src" / package


TYPES_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.mark.parametrize(
    "back",
    [
        "from toy.low.first import A",
        "from toy.low import first",
        "import toy.low.first",
        f"{TYPES_ONLY}from toy.low.first import A",
        "def call():\n    from toy.low import first",
        "import importlib\nimportlib.import_module('toy.low.first')",
    ],
)
def test_a_circle_and_an_import_from_below_are_found(tmp_path: Path, back: str) -> None:
    """The two checks above see an import in every form that it may have."""
    files = {
        "toy/__init__.py": "",
        "toy/low/__init__.py": "",
        "toy/low/first.py": "A = 1",
        "toy/high.py": "from toy.low.first import A",
    }
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    graph = graph_of(tmp_path / "toy")
    assert (circle_in(graph), imports_from_below(graph, ("low", "high"))) == ([], [])
    (tmp_path / "toy/high.py").write_text(back)
    (tmp_path / "toy/low/first.py").write_text(
        back.replace("toy.low.first", "toy.high").replace("toy.low import first", "toy import high")
    )
    graph = graph_of(tmp_path / "toy")
    assert set(circle_in(graph)) == {"toy.low.first", "toy.high"}
    assert imports_from_below(graph, ("low", "high")) == ["toy.low.first imports toy.high"]

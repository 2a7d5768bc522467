"""``docs/architecture.md`` names files and names that exist, and leaves out no room, hook or stage."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
KERNELS = ROOT / "packages" / "jcw-kernels"
SOURCES = sorted((ROOT / "packages").glob("*/src/**/*.py"))
ID = "ID"
"""What the page writes where a file's name has the identifier of a model."""


def spans(page: str) -> list[str]:
    """What stands between backticks, each once; blocks of code are left out."""
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    return list(dict.fromkeys(re.findall(r"`([^`]+)`", prose)))


SPANS = spans(PAGE.read_text(encoding="utf-8"))


def is_right(span: str) -> bool:
    """Whether a file, a name in a file, a command or a word of the page is there in the code."""
    if ": " in span:
        file, names = span.split(": ")
        return location(file).is_file() and set(names.split(", ")) <= defined_in(location(file))
    if "/" in span:
        return location(span).exists() or span in files_of_a_run()
    if span.startswith("jcw "):
        return span.removeprefix("jcw ") in commands()
    return (ROOT / span).exists() or span in words()


def location(path: str) -> Path:
    """Where a path of the page lies: those of packages in their ``src``, ``cpp`` in jcw-kernels."""
    first = path.split("/")[0]
    if first == "cpp":
        return KERNELS / path
    package = ROOT / "packages" / first.replace("_", "-") / "src"
    return (package if package.is_dir() else ROOT) / path


@cache
def defined_in(file: Path) -> frozenset[str]:
    """Names that a file defines: in Python members of classes as ``Class.member``, too."""
    text = file.read_text(encoding="utf-8")
    return frozenset(python_names(text) if file.suffix == ".py" else cpp_names(text))


def python_names(code: str) -> Iterator[str]:
    for node in ast.parse(code).body:
        yield from _bound_by(node)
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for inner in node.body for name in _bound_by(inner))


def _bound_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def cpp_names(code: str) -> Iterator[str]:
    """Types, functions and constants: what follows the name of a type, as nothing that is called does."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", code, flags=re.DOTALL)
    for before, name in re.findall(r"([\w>&*\])]+)\s+[*&]?(?:\w+::)?(\w+)\s*[({=;:\[]", code):
        if before not in {"return", "else", "throw", "case", "goto", "new"}:
            yield name


@cache
def words() -> frozenset[str]:
    """Names that the packages define anywhere, strings such as names of plugins, modules, and programs that are built."""
    found = {path.name for path in [*SOURCES, *KERNELS.glob("cpp/*/*.*")]}
    found |= set(re.findall(r"[\w-]+", _read(KERNELS / "CMakeLists.txt")))
    for path in SOURCES:
        found |= defined_in(path) | {path.relative_to(ROOT).parts[3]}
        for node in ast.walk(ast.parse(_read(path))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return frozenset(found | {Path(name).name for name in files_of_a_run()})


@cache
def commands() -> frozenset[str]:
    return frozenset(
        node.name.replace("_", "-")
        for path in SOURCES
        for node in ast.walk(ast.parse(_read(path)))
        if isinstance(node, ast.FunctionDef)
        and re.search(r"click\.(command|group)", " ".join(map(ast.unparse, node.decorator_list)))
    )


@cache
def files_of_a_run() -> frozenset[str]:
    """Paths below a run's directory as the code writes them down, with every suffix that an exporter has."""
    suffixes = {
        ast.literal_eval(value)
        for path in SOURCES
        for value in re.findall(r'^    suffix = ("\.\w+")', _read(path), re.MULTILINE)
    }
    found = set()
    for path in SOURCES:
        for text in re.findall(r'"(models/[^"\s]+)"', _read(path)):
            text = re.sub(r"\{\w+(\.id)?\}", ID, text)
            found |= {re.sub(r"\{\w+\.suffix\}", suffix, text) for suffix in suffixes}
    return frozenset(found)


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def rooms() -> list[str]:
    """Every folder of code, as the page writes it; a package without folders is itself the room."""
    found = []
    for package in sorted((ROOT / "packages").glob("*/src/*/__init__.py")):
        folders = sorted(path.parent for path in package.parent.glob("*/**/__init__.py"))
        found += [str(folder.relative_to(package.parents[1])) for folder in folders]
        found += [] if folders else [str(package.parent.relative_to(ROOT))]
    return found + sorted(f"cpp/{path.name}" for path in (KERNELS / "cpp").iterdir() if path.is_dir())


def rows() -> list[tuple[str, str]]:
    """Rooms of one row of the table of rooms, and the files that the row names."""
    table = PAGE.read_text(encoding="utf-8").partition("| room |")[2].partition("\n\n")[0]
    return [(row.split("|")[1], row.split("|")[2]) for row in table.splitlines()[2:]]


def hooks() -> list[str]:
    specs = ast.parse(_read(location("jcw_core/hookspecs.py")))
    return [node.name for node in specs.body if isinstance(node, ast.FunctionDef)]


def stages() -> list[str]:
    """Where each class that is a stage stands."""
    return [
        f"{'/'.join(path.relative_to(ROOT).parts[3:])}: {node.name}"
        for path in SOURCES
        for node in ast.parse(_read(path)).body
        if isinstance(node, ast.ClassDef) and f"{node.name}.makes" in defined_in(path) and not node.bases
    ]


def test_the_page_names_many_things() -> None:
    assert sum(": " in span for span in SPANS) > 50
    assert sum("cpp/" in span for span in SPANS) > 15


@pytest.mark.parametrize("span", SPANS)
def test_what_the_page_names_is_there(span: str) -> None:
    assert is_right(span)


@pytest.mark.parametrize("span", SPANS)
def test_one_letter_more_is_found(span: str) -> None:
    """Also in the file of ``file: name``."""
    assert not is_right(f"{span}x")
    if ": " in span:
        assert not is_right(span.replace(": ", "x: "))


CONCEPTS = [
    span
    for span in spans((PAGE.parent / "concepts.md").read_text(encoding="utf-8"))
    if re.match(r"(jcw_\w+|cpp)/", span)
]


def test_the_concepts_name_code() -> None:
    assert len(CONCEPTS) > 20


@pytest.mark.parametrize("span", CONCEPTS)
def test_what_the_concepts_name_is_there(span: str) -> None:
    assert is_right(span)


@pytest.mark.parametrize("room", rooms())
def test_every_room_is_on_the_page(room: str) -> None:
    assert room in SPANS


@pytest.mark.parametrize(
    "package", sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
)
def test_every_package_is_on_the_page(package: str) -> None:
    assert re.search(rf"^.*\b{package}\b", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("hook", hooks())
def test_every_hook_has_its_place(hook: str) -> None:
    assert hook in SPANS


@pytest.mark.parametrize("stage", stages())
def test_every_stage_is_on_the_page(stage: str) -> None:
    assert stage in SPANS


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 220


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("struct Tile {};", "Tile"),
        ("inline void accumulate(int n) {}", "accumulate"),
        ("Model Model::parse(Bytes bytes) {", "parse"),
        ("constexpr int kGroup = 4;", "kGroup"),
        ("const float* View::at(int n) {", "at"),
        ("constexpr std::array<int, 2> kOps = {{", "kOps"),
    ],
)
def test_definitions_in_cpp_are_known_and_calls_and_comments_are_not(code: str, name: str) -> None:
    assert name in set(cpp_names(code))
    assert name not in set(cpp_names(f"// {code}"))
    assert name not in set(cpp_names(f"f(); return {name}(1);"))
    assert name not in set(cpp_names(f"total += {name}(1);"))

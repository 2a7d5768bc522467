"""No function of a package is longer than a screen or two: what is longer has a second idea inside."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[1] / "packages").glob("*/src/**/*.py"))
LONGEST = 60
"""Lines of the longest function, from its ``def`` to its end, docstring included."""


def long_functions(code: str) -> list[str]:
    return [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(code))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > LONGEST
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-3:]))
def test_no_function_is_too_long(path: Path) -> None:
    assert long_functions(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_one_line_more_is_too_long(kind: str) -> None:
    def code(lines: int) -> str:
        return f"class A:\n    {kind} f():\n" + "        pass\n" * (lines - 1)

    assert long_functions(code(LONGEST)) == []
    assert long_functions(code(LONGEST + 1)) == [f"f: {LONGEST + 1} lines"]

"""The extension's stub is what its generator makes of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import jcw_kernels._engine

stubgen = pytest.importorskip("nanobind.stubgen", reason="stubs are checked where nanobind is installed")


def test_stub_is_current() -> None:
    generator = stubgen.StubGen(jcw_kernels._engine, quiet=True)
    generator.put(jcw_kernels._engine)
    written = Path(jcw_kernels.__file__).with_name("_engine.pyi").read_text(encoding="utf-8")
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(generator.get())), (
        "run python -m nanobind.stubgen -m jcw_kernels._engine -o packages/jcw-kernels/src/jcw_kernels/_engine.pyi"
    )

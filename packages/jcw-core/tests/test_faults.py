"""Errors that nobody foresaw: one line that names the plugin, and a file that has the traceback."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from jcw_core.cli import faults, main

BROKEN = """
def outer(call):
    call()

def inner():
    raise {error}
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SimpleNamespace]:
    """A plugin of the distribution ``toy-broken`` whose function ``inner`` raises an error."""
    point = SimpleNamespace(
        module=EntryPoint("toy", "toy_broken:hooks", "jcw").module, dist=SimpleNamespace(name="toy-broken")
    )
    points = [point]
    monkeypatch.setattr(faults, "entry_points", lambda group: points)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)

    def make(error: str) -> SimpleNamespace:
        (tmp_path / "toy_broken.py").write_text(BROKEN.format(error=error))
        sys.modules.pop("toy_broken", None)
        importlib.invalidate_caches()
        module = importlib.import_module("toy_broken")
        return SimpleNamespace(inner=module.inner, outer=module.outer)

    return make


@pytest.mark.parametrize(
    "error", ["ValueError('boom')", "KeyError('x')", "ZeroDivisionError()", "Exception('a\\nb')"]
)
@pytest.mark.parametrize("last", ["plugin", "library"])
def test_a_plugin_that_raises_is_named_in_one_line(
    broken: Callable[[str], SimpleNamespace],
    error: str,
    last: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plugin = broken(error)

    def library() -> None:
        raise eval(error)

    call = plugin.inner if last == "plugin" else lambda: plugin.outer(library)
    command = SimpleNamespace(main=lambda **options: call())
    monkeypatch.setattr(main, "build", lambda registry: command)
    assert main._run() == 2
    (line,) = capsys.readouterr().err.splitlines()
    function = "inner" if last == "plugin" else "outer"
    assert line.startswith(f"jcw: toy-broken failed with {error.split('(')[0]}: ")
    assert re.search(rf"\(toy_broken\.py:\d+, in {function}\)", line)
    (kept,) = tmp_path.glob("jcw-*.txt")
    assert str(kept) in line
    assert "Traceback (most recent call last)" in kept.read_text()
    assert "toy_broken.py" in kept.read_text()


def test_a_traceback_that_cannot_be_kept_costs_only_itself(
    broken: Callable[[str], SimpleNamespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = broken("ValueError('boom')")
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    with pytest.raises(ValueError, match="boom") as raised:
        plugin.inner()
    assert "its traceback could not be written" in faults.fault(raised.value)

"""What sections of a report say of it in a line, at the end of ``jcw run`` and in ``jcw show``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jcw_core.cli.main import build
from jcw_core.hookspecs import hookimpl
from jcw_core.registry import Registry
from jcw_core.run import checks, pipeline

MODEL = {
    "id": "m1", "requested_latency_ms": 1.0, "predicted_latency_ms": 1.0, "measured_latency_ms": 1.0,
    "test_error": 0.1, "kept_weights": 9,
}  # fmt: skip
REPORT = {
    "format": "jcw-report/1", "network": "net", "dataset": "data", "device": {"cpu": "c"},
    "baseline": {**MODEL, "id": "baseline"}, "models": [MODEL],
}  # fmt: skip


class Quiet:
    """A section without a summary."""

    name, title = "quiet", "Quiet"

    def __init__(self, name: str = "quiet", order: int = 1) -> None:
        self.name, self.order = name, order

    def data(self, context: Any) -> None:
        return None

    def html(self, data: Mapping[str, Any]) -> str:
        return ""


class Loud(Quiet):
    def summary(self, data: Mapping[str, Any]) -> str:
        return str(data["says"])


def jcw(*arguments: object) -> Result:
    sections = [Loud("second", 2), Quiet(), Loud("first", 1)]
    plugin = SimpleNamespace(jcw_register_report=hookimpl(lambda: sections))
    command = build(Registry({"loud": plugin}))
    return CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ({}, []),
        ({"quiet": {"says": "nothing"}}, []),
        ({"first": {"says": ""}, "second": {"says": "two"}}, ["two"]),
        ({"second": {"says": "two"}, "first": {"says": "one"}}, ["one", "two"]),
        ({"first": 3, "second": None}, []),
    ],
)
def test_show_and_the_end_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], lines: list[str]
) -> None:
    def write(context: Any, *arguments: object) -> None:
        context.directory.root.mkdir(parents=True, exist_ok=True)
        context.path("report.json").write_text(json.dumps({**REPORT, **found}))

    monkeypatch.setattr(pipeline, "plan", lambda *_: [])
    monkeypatch.setattr(checks, "check", lambda *_: [])
    monkeypatch.setattr(pipeline, "run", write)
    recipe = tmp_path / "r.toml"
    recipe.write_text('network = { backbone = "resnet18" }\ndata = { name = "fashion_mnist", path = "." }\n')
    ran = jcw("run", recipe, "--runs", tmp_path / "runs")
    *said, last = filter(None, ran.output.splitlines())
    assert said == lines
    assert last.startswith("report: ")
    shown = jcw("show", tmp_path / "runs" / "r")
    assert shown.output.splitlines()[-len(lines) or len(shown.output) :] == lines

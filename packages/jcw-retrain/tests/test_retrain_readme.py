"""The README's snippets run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from retrain_samples import SMALL, open_run

from jcw_core.options import Location, parse
from jcw_core.run.export import ExportOptions
from jcw_core.run.pipeline import run
from jcw_retrain.options import RetrainOptions, phases

README = Path(__file__).parents[1] / "README.md"


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def snippet(language: str) -> str:
    (found,) = snippets(language)
    return found


def test_the_recipes_are_such() -> None:
    text, distilled = snippets("toml")
    learnt = parse(RetrainOptions, tomllib.loads(distilled)["retrain"], Location(README))
    assert (learnt.teacher, learnt.distillation.labels, learnt.finetune.epochs) == ("dense", 0, 2)
    tables = tomllib.loads(text)
    where = Location(README)
    options = parse(RetrainOptions, tables.pop("retrain"), where)
    assert phases(options, "resnet18").pretrain.epochs == 12
    assert parse(ExportOptions, tables.pop("export"), where).formats == ("jcw", "safetensors")
    assert not tables


def test_an_exported_model_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context, _ = open_run(tmp_path, "budgets_ms = [2.5]")
    run(context, until="export")
    (tmp_path / "runs").mkdir()
    (tmp_path / "run").rename(tmp_path / "runs/quickstart")
    monkeypatch.chdir(tmp_path)
    exec(snippet("python"), {})
    assert str(SMALL) in capsys.readouterr().out

"""The README's snippets run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jcw_core.registry import Registry

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
CUT, PLUGIN = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_a_network_is_counted_and_cut(capsys: pytest.CaptureFixture[str]) -> None:
    exec(CUT, {})
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "11,689,512 parameters, 1,814,073,344 MACs",
        "32 dimensions, the narrowest stem has 32 channels",
        "83% of the MACs",
    ]


def test_the_plugin_registers_its_backbone() -> None:
    scope: dict[str, Any] = {}
    exec(PLUGIN, scope)
    plugin = SimpleNamespace(jcw_register_backbones=scope["jcw_register_backbones"])
    backbones = Registry({"readme": plugin}, installed=False).backbones
    assert backbones["two_layers"].build(num_classes=5).num_classes == 5

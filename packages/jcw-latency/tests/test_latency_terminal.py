"""Names in tables and fronts reach the terminal without what it would obey."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from latency_samples import SyntheticDevice, quick_options

from jcw_core.cli.main import build
from jcw_core.errors import FormatError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.registry import Registry
from jcw_latency import profile

SHOWN = "\u202eback"
"""Harmless enough to be kept in a table, but not to be shown as it is."""
ODD = "\x1b]0;title\x07 \x1b[31mred \x9b2J \u202eback \x7f"


@pytest.mark.parametrize("odd", ["names of files", "strings in files"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["table", "show", "TABLE"],
        ["table", "diff", "TABLE", "OTHER"],
        ["table", "merge", "TABLE", "OTHER", "-o", "JOINED"],
        ["predict", "TABLE", "ARCHITECTURE"],
        ["predict", "TABLE", "ARCHITECTURE", "--layers"],
        ["predict", "TABLE", "ARCHITECTURE", "--json"],
        ["predict", "TABLE", "MISSING"],
        ["predict", "MISSING", "ARCHITECTURE"],
        ["profile", "MISSING", "--device", ODD],
    ],
)
def test_escapes_in_files_are_not_printed(
    arguments: list[str], odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that holds control characters is neither written nor read; what else is odd is shown as an escape."""
    monkeypatch.chdir(tmp_path)
    net = NetworkBuilder("net", (1, 8, 8))
    net.conv("conv1", 8, 3)
    net.conv("conv2", 8, 3)
    table = profile(net.build(), SyntheticDevice(), quick_options(), rng=np.random.default_rng(0))
    if odd == "strings in files":
        device = replace(table.device, cpu=SHOWN, isa=SHOWN, versions={SHOWN: SHOWN})
        table = replace(table, device=device, settings={**table.settings, f"note{SHOWN}": SHOWN})
        with pytest.raises(FormatError, match="control character"):
            replace(table, settings={"note": ODD}).save(tmp_path / "refused")
    table.save(tmp_path / f"table{ODD}")
    other = replace(table.device, cpu="another") if arguments[1] == "diff" else table.device
    replace(table, device=other).save(tmp_path / f"other{ODD}")
    (tmp_path / f"a{ODD}").write_text(json.dumps({"widths": {}, "densities": {}}))
    names = {"TABLE": "table", "OTHER": "other", "ARCHITECTURE": "a", "MISSING": "none", "JOINED": "joined"}
    given = [names[word] + ODD if word in names else word for word in arguments]
    done = CliRunner().invoke(build(Registry()), given)
    if "MISSING" not in arguments:
        assert done.exception is None, done.exception
        assert done.output
    assert all(c == "\n" or c.isprintable() for c in done.output)

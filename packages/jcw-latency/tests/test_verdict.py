"""Verdicts on latency tables: their thresholds, what mends a table, and every place that says them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from latency_samples import Plugin, SyntheticDevice, measured

from jcw_core.cli.main import build
from jcw_core.network.graph import Network
from jcw_core.registry import Registry
from jcw_latency import LatencyTable
from jcw_latency.fidelity.report_section import FidelitySection
from jcw_latency.fidelity.verdict import LEVELS, Verdict, judge, uncertain_share

GOOD: dict[str, Any] = {
    "mape": 0.02, "max_error": 0.1, "bias": 0.0, "kendall_tau": 0.97, "macs_kendall_tau": 0.95, "networks": 100,
    "method": "networks", "slowdown": 0.0, "points": [{"predicted_ms": 1.0, "measured_ms": 1.0, "macs": 9}],
}  # fmt: skip


def verdict(table: LatencyTable, uncertain: int = 0, drift: Any = 0.05, **changes: Any) -> Verdict:
    settings = {**table.settings, "uncertain": uncertain, "points": 1380, "drift": drift}
    return judge(replace(table, settings=settings), {**GOOD, **changes}, again="jcw profile small ... --set ")


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({}, "good", "off by 2.0% on average"),
        # The table of which nobody was warned.
        (
            {"uncertain": 957, "mape": 0.127, "kendall_tau": 0.85, "macs_kendall_tau": 0.92},
            "not to be believed",
            "69% of its points are uncertain",
        ),
        ({"uncertain": 400}, "doubtful", "29% of its points are uncertain"),
        ({"drift": 0.3}, "doubtful", "varied by 30%"),
        ({"mape": 0.06}, "doubtful", "off by 6.0% on average"),
        ({"mape": 0.11}, "not to be believed", "off by 11.0% on average"),
        ({"max_error": 0.3}, "doubtful", "one prediction is off by 30%"),
        ({"max_error": 0.6}, "not to be believed", "one prediction is off by 60%"),
        ({"kendall_tau": 0.92}, "doubtful", "worse (Kendall's tau 0.920) than their MACs do (0.950)"),
        ({"kendall_tau": 0.8}, "not to be believed", "worse"),
        ({"kendall_tau": 0.8, "networks": 9}, "good", "on average"),
    ],
)
def test_thresholds(table: LatencyTable, changes: dict[str, Any], level: str, words: str) -> None:
    found = verdict(table, **changes)
    assert found.level == level
    assert words in str(found)
    assert (found.remedy == "") == (level == "good")


shares = st.floats(0, 1)


@given(
    st.tuples(st.integers(0, 1380), shares, shares, shares, shares),
    st.tuples(st.integers(0, 1380), shares, shares, shares, shares),
)
def test_a_worse_table_has_no_better_verdict(
    table: LatencyTable, one: tuple[float, ...], other: tuple[float, ...]
) -> None:
    better, worse = zip(*(sorted(pair) for pair in zip(one, other, strict=True)), strict=True)
    levels = [
        LEVELS.index(
            verdict(
                table,
                uncertain,
                drift,
                mape=mape,
                max_error=largest,
                kendall_tau=1 - below,
                macs_kendall_tau=1.0,
            ).level
        )
        for uncertain, drift, mape, largest, below in (better, worse)
    ]
    assert levels[0] <= levels[1]


def test_remedies(table: LatencyTable) -> None:
    busy = verdict(table, uncertain=1000, mape=0.2, slowdown=0.3).remedy
    assert busy == "on an idle machine, `jcw profile small ... --set rounds=12` profiles it again"
    assert verdict(table, mape=0.2, slowdown=0.3).remedy.startswith("the machine was 30% slower than while")
    assert verdict(table, mape=0.2, slowdown=-0.3).remedy.startswith("the machine was 30% faster than while")
    for slowdown in (0.01, None):
        assert "whole_networks=300" in verdict(table, mape=0.2, slowdown=slowdown).remedy


def test_tables_that_do_not_say_how_certain_they_are(table: LatencyTable) -> None:
    part = {"uncertain": 1, "points": 4}
    for settings, share in (
        ({}, None), ({"imported": True}, None), (part, 0.25), ({"merged": [part, part]}, 0.25), ({"merged": [part, {}]}, None),
        ({"merged": []}, None), ({"merged": 3}, None), ({"merged": [3]}, None), ({"uncertain": "x", "points": 3}, None),
        ({"uncertain": 1, "points": 0}, None), ({"uncertain": -1, "points": 3}, None), ({"uncertain": 1, "points": 10**400}, None),
    ):  # fmt: skip
        odd = replace(table, settings=settings)
        assert uncertain_share(odd) == share
        assert judge(odd, again="").level == "good"
    assert judge(replace(table, settings={"drift": "much"}), again="").level == "good"


def jcw(*arguments: object) -> Any:
    registry = Registry({"synthetic": Plugin()})
    return CliRunner().invoke(build(registry), [str(a) for a in arguments], catch_exceptions=False)


@pytest.mark.parametrize(("noise", "level"), [(0.0, "good"), (0.3, "not to be believed")])
def test_commands_say_the_verdict(network: Network, tmp_path: Path, noise: float, level: str) -> None:
    (tmp_path / "net.json").write_text(network.to_json())
    made = tmp_path / "made.npz"
    profiled = jcw("profile", tmp_path / "net.json", "--device", "synthetic", "--option", f"noise={noise}", "-o", made,
                   "--set", "widths=2", "--set", "densities=2", "--set", "rounds=6", "--set", "whole_networks=0")  # fmt: skip
    assert f"latency table {level}: " in profiled.output
    checked = jcw("check", made, "--networks", 5, "--option", f"noise={noise}")
    assert f"latency table {level}: " in checked.output
    found = json.loads(jcw("check", made, "--networks", 5, "--json").output.strip().splitlines()[-1])
    assert found["verdict"].keys() == {"level", "reasons", "remedy"}


def test_report_section_begins_with_the_verdict(table: LatencyTable) -> None:
    found = verdict(table, mape=0.2)
    data = {**GOOD, "verdict": found.to_dict()}
    page = FidelitySection().html(data)
    assert page.startswith(
        "<p><strong>Latency table not to be believed</strong>: its predictions are off by 20.0%"
    )
    assert FidelitySection().summary(data) == str(found)
    assert FidelitySection().summary(GOOD) == ""


def test_a_noisy_profile_is_not_called_good(network: Network) -> None:
    quiet, noisy = (measured(network, SyntheticDevice(noise=noise), rounds=6) for noise in (0.0, 0.3))
    assert judge(quiet, again="").level == "good"
    assert judge(noisy, again="").level == "not to be believed"
    assert np.isfinite(uncertain_share(noisy) or np.nan)

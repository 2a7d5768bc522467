"""``jcw check --plot``: the panels of the figure, where it is written, and its errors."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from latency_samples import Plugin, SyntheticPlugin

from jcw_core.cli.main import build
from jcw_core.errors import JcwError
from jcw_core.network.graph import Network
from jcw_core.protocols import DeviceInfo
from jcw_core.registry import Registry
from jcw_latency.fidelity import figure
from jcw_latency.fidelity.check import Fidelity, Point

DEVICE = DeviceInfo("phone", "Cortex-X4", "neon", 2)
POINTS = (Point(1.1, 1.0, 10_000_000), Point(1.8, 2.0, 30_000_000), Point(3.0, 3.5, 20_000_000))


def invoke(*arguments: object) -> str:
    registry = Registry({"synthetic": Plugin()})
    done = CliRunner().invoke(build(registry), [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("method", ["networks", "layers"])
def test_the_panels_show_every_network_with_units(network: Network, method: str) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    found = Fidelity(POINTS, method).to_dict()
    drawn = figure.scatter_plots(found, network, DEVICE)
    title = drawn.get_suptitle()
    assert "3 random architectures of small, input 3 x 8 x 8" in title
    assert "phone: Cortex-X4, neon, 2 threads" in title
    scatter, twin = drawn.axes
    assert scatter.get_xlabel() == "predicted latency (ms)"
    assert twin.get_xlabel() == "multiply-accumulates (millions)"
    assert f"MAPE {found['mape']:.1%}, Kendall's tau {found['kendall_tau']:.3f}" in scatter.get_title()
    assert f"{found['macs_kendall_tau']:.3f}" in twin.get_title()
    identity, points = scatter.lines
    np.testing.assert_array_equal(*identity.get_data())
    np.testing.assert_array_equal(points.get_data(), [[1.1, 1.8, 3.0], [1.0, 2.0, 3.5]])
    np.testing.assert_array_equal(twin.lines[0].get_data(), [[10, 30, 20], [1.0, 2.0, 3.5]])
    for axes in drawn.axes:
        assert axes.get_ylabel().endswith("(ms)")
        assert ("layers" in axes.get_ylabel()) == (method == "layers")
        assert all(low <= 0 for low in (axes.get_xlim()[0], axes.get_ylim()[0]))
        assert axes.get_ylim()[1] > 3.5


def test_a_name_with_formulas_is_drawn_as_it_stands(network: Network, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    odd = Network("net $\\frac{1$", network.nodes)
    figure.draw(Fidelity(POINTS).to_dict(), odd, DEVICE, tmp_path / "plot.png")
    assert [path.name for path in tmp_path.iterdir()] == ["plot.png"]


@pytest.mark.parametrize("options", [(), ("--device", "recorded")])
def test_check_writes_a_png(table_file: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    if options:
        options += ("--option", f"table={table_file}")
    path = tmp_path / "plots" / "check.png"
    printed = invoke("check", table_file, "--networks", 5, "--plot", path, *options)
    assert printed.startswith("5 networks") or "\n5 networks" in printed
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (1200, 600)


@pytest.mark.parametrize(
    ("name", "message"),
    [("plot.png", r"pip install 'jcw-latency\[plot\]'"), ("plot.pdf", r"plot\.pdf: .*ends in \.png")],
)
def test_plot_errors_come_before_measuring(
    table_file: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(SyntheticPlugin, "open", lambda *_: pytest.fail("measured"))
    with pytest.raises(JcwError, match=message) as caught:
        invoke("check", table_file, "--networks", 5, "--plot", table_file.with_name(name))
    assert "\n" not in str(caught.value)
    assert not table_file.with_name(name).exists()


def test_json_has_exactly_the_keys_that_the_help_names(table_file: Path) -> None:
    found: dict[str, Any] = json.loads(
        invoke("check", table_file, "--networks", 5, "--json").strip().splitlines()[-1]
    )
    documented = ["mape", "max_error", "bias", "kendall_tau", "networks"]
    further = ["macs_kendall_tau", "method", "slowdown", "verdict", "points"]
    assert sorted(found) == sorted(documented + further)
    assert len(found["points"]) == found["networks"] == 5
    (shown,) = [p for p in build(Registry()).commands["check"].params if p.name == "as_json"]
    help_text = getattr(shown, "help", "")
    assert ", ".join(documented) in help_text
    assert all(key in help_text for key in [*further, *found["points"][0]])

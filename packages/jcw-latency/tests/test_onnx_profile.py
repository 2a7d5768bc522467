"""The commands on an ONNX file: profiled, predicted and checked like any other network."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from latency_samples import Plugin
from onnx_models import rich_model

from jcw_core.cli.main import build
from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.registry import Registry
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyTable


def test_profile_predict_and_check_an_onnx_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(rich_model())
    made = tmp_path / "made.npz"

    def jcw(*arguments: object) -> str:
        command = build(Registry({"synthetic": Plugin()}))
        done = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    jcw("profile", tmp_path / "net.onnx", "--device", "synthetic", "-o", made, "--set", "widths=2")
    network = LatencyTable.read(made).network()
    assert network == read_onnx(tmp_path / "net.onnx")
    assert {v.name for v in SearchSpace.of(network).variables} == {"stem", "fc"}
    (tmp_path / "half.json").write_text('{"widths": {"stem": 4}, "densities": {"fc": 0.5}}')
    (row,) = json.loads(jcw("predict", made, tmp_path / "half.json", "--json"))
    assert row["latency_ms"] > 0
    found = json.loads(jcw("check", made, "--networks", 5, "--json").strip().splitlines()[-1])
    assert found["mape"] < 0.01

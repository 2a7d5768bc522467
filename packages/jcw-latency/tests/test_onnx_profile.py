"""The commands on an ONNX file: profiled, predicted and checked like any other network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result
from latency_samples import Plugin
from onnx_models import WINDOW, model, numbers, onnx, rich_model, step

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
    network = LatencyTable.load(made).network()
    assert network == read_onnx(tmp_path / "net.onnx")
    assert {v.name for v in SearchSpace.of(network).variables} == {"stem", "fc"}
    (tmp_path / "half.json").write_text('{"widths": {"stem": 4}, "densities": {"fc": 0.5}}')
    (row,) = json.loads(jcw("predict", made, tmp_path / "half.json", "--json"))
    assert row["latency_ms"] > 0
    found = json.loads(jcw("check", made, "--networks", 5, "--json").strip().splitlines()[-1])
    assert found["mape"] < 0.01


def test_commands_warn_of_half_precision_and_shared_weights_in_a_line_each(tmp_path: Path) -> None:
    steps = [
        step("Conv", "x", "w", name="first", to="a", **WINDOW), step("Conv", "a", "w", name="second", to="b", **WINDOW),
    ]  # fmt: skip
    (tmp_path / "net.onnx").write_bytes(
        model(steps, [numbers("w", np.zeros((4, 4, 3, 3)), np.float16)]).SerializeToString()
    )
    done = subprocess.run(
        [sys.executable, "-m", "jcw_core", "profile", "net.onnx", "--device", "recorded", "--option", "table=none"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    precision, shared, error = done.stderr.splitlines()
    assert precision.startswith("jcw: warning: net.onnx: holds float16 in the weights of node 'first'")
    assert shared.startswith("jcw: warning: net.onnx: nodes 'first', 'second' share a weight")
    assert error.endswith("none: no such file")


def open_model() -> bytes:
    """The same with its height and width left open."""
    proto = onnx.ModelProto.FromString(rich_model())
    for dim in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = "open"
    return proto.SerializeToString()


def test_open_sizes_are_given_on_the_command_line(tmp_path: Path) -> None:
    path, made = tmp_path / "net.onnx", tmp_path / "made.npz"
    path.write_bytes(open_model())

    def profile(*arguments: object) -> Result:
        command = build(Registry({"synthetic": Plugin()}))
        arguments = ("profile", path, "--device", "synthetic", "-o", made, "--set", "widths=1", *arguments)
        return CliRunner().invoke(command, [str(a) for a in arguments])

    failed = profile()
    assert failed.exit_code != 0
    assert "--shape 1,3,224,224" in str(failed.exception)
    for wrong in ("1,4,6", "1,4,6,0", "1,4,6,a", ""):
        failed = profile("--shape", wrong)
        assert failed.exit_code == 2
        assert "is not four sizes" in failed.output
    assert profile("--shape", "1,4,6,6").exit_code == 0
    assert LatencyTable.load(made).network() == read_onnx(path, (1, 4, 6, 6))


def test_a_network_ends_where_the_command_line_says(tmp_path: Path) -> None:
    path, made = tmp_path / "net.onnx", tmp_path / "made.npz"
    proto = onnx.ModelProto.FromString(rich_model())
    proto.graph.node.append(step("Erf", proto.graph.output[0].name))
    proto.graph.output[0].name = "erf"
    path.write_bytes(proto.SerializeToString())

    def profile(network: Path, *arguments: str) -> Result:
        command = build(Registry({"synthetic": Plugin()}))
        given = ("profile", network, "--device", "synthetic", "-o", made, "--set", "widths=1", *arguments)
        return CliRunner().invoke(command, [str(a) for a in given])

    assert "--outputs NAME,NAME" in str(profile(path).exception)
    assert profile(path, "--outputs", "gemm").exit_code == 0
    network = LatencyTable.load(made).network()
    assert network == read_onnx(path, outputs=["gemm"])
    (tmp_path / "net.json").write_text(network.to_json())
    for other in (tmp_path / "net.json", Path("resnet18")):
        assert re.search("outputs.* an ONNX file", str(profile(other, "--outputs", "gemm").exception))

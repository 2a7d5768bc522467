"""The host device, the exporter, the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from kernel_samples import PROBLEMS, conv_network, weights_for

from jcw_core.errors import DeviceError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import Precision, TimesLayers
from jcw_core.run.checks import available_cores
from jcw_kernels import peak
from jcw_kernels.commands import kernels
from jcw_kernels.exporter import JcwExporter
from jcw_kernels.host import HostDevice, HostOptions, HostPlugin

QUICK = HostOptions(layer_ms=0.01, model_ms=0.01)


@pytest.mark.parametrize("threads", [1, 2])
def test_times_every_kind_of_layer(threads: int) -> None:
    device = HostDevice(HostOptions(threads=threads, layer_ms=0.01))
    seconds = device.measure(PROBLEMS, rounds=2)
    assert seconds.shape == (2, len(PROBLEMS))
    assert (seconds > 0).all()


def test_no_problems() -> None:
    assert HostDevice(QUICK).measure([], rounds=3).shape == (3, 0)


def test_refuses_operations_without_work() -> None:
    with pytest.raises(DeviceError, match="output"):
        HostDevice(QUICK).measure([LayerProblem("output", 1, 1, 1, 1)], rounds=1)


def test_describe() -> None:
    info = HostDevice(HostOptions(isa="scalar", threads=2)).describe()
    assert (info.name, info.isa, info.threads) == ("host", "scalar", 2)
    assert info.cpu
    assert "jcw-kernels" in info.versions
    assert "precision" not in info.versions


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_layers_are_timed_in_the_precision_that_is_asked_for(precision: Precision) -> None:
    device = HostDevice(HostOptions(layer_ms=0.01, precision=precision))
    assert device.precision == device.describe().versions["precision"] == precision
    assert (device.measure(PROBLEMS, rounds=1) > 0).all()


@pytest.fixture
def exported(tmp_path: Path, rng: np.random.Generator) -> Path:
    network = conv_network((3, 12, 11), 8, (3, 3), padding=(1, 1), activation="relu")
    path = tmp_path / "model.jcw"
    JcwExporter().export(Model(network, weights_for(network, rng, 0.3)), path)
    return path


def test_measures_models(exported: Path) -> None:
    assert (HostDevice(QUICK).measure_models([exported, exported], rounds=3) > 0).all()


def test_measures_the_layers_of_a_model(exported: Path) -> None:
    device = HostDevice(QUICK)
    assert isinstance(device, TimesLayers)
    (name, seconds), *others = device.measure_layers(exported, rounds=3).items()
    assert (name, others) == ("conv", [])
    assert 0 < seconds < 1


def test_profile_command(exported: Path) -> None:
    result = CliRunner().invoke(kernels, ["profile", str(exported), "--rounds", "2"], catch_exceptions=False)
    assert "sparse" in result.output
    assert "conv" in result.output


def test_profile_as_json(exported: Path) -> None:
    arguments = ["profile", str(exported), "--rounds", "2", "--json"]
    found = json.loads(CliRunner().invoke(kernels, arguments, catch_exceptions=False).output)
    assert found["threads"] == 1
    assert found["peak_gflops"].keys() == {"float32"}
    assert found["peak_gflops"]["float32"] > 0
    assert {step["layer"] for step in found["steps"]} >= {"conv"}
    assert all(step["seconds"] > 0 for step in found["steps"])


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_profile_command_tells_precisions_apart(
    precision: Precision, isa: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of int8 the layer that computes so, while the mean of its output is of floats."""
    monkeypatch.setattr(peak, "_SECONDS", 0.0)
    b = NetworkBuilder("network", (3, 12, 11))
    b.conv("conv", 8, 3, bias=True)
    b.add("mean", "global_avg_pool")
    model = Model(b.build(), weights_for(b.build(), rng))
    images = rng.standard_normal((2, 3, 12, 11), dtype=np.float32)
    exporter = {"float16": JcwExporter().in_half_precision(), "int8": JcwExporter().calibrated(images)}
    path = tmp_path / "model.jcw"
    exporter.get(precision, JcwExporter()).export(model, path)
    arguments = ["profile", str(path), "--rounds", "2", "--isa", isa]
    found = json.loads(CliRunner().invoke(kernels, [*arguments, "--json"], catch_exceptions=False).output)
    assert found["precision"] == precision
    computed = {step["layer"]: step["precision"] for step in found["steps"]}
    assert computed["conv"] == precision
    assert computed["mean"] == ("float32" if precision == "int8" else precision)
    assert found["peak_gflops"].keys() == set(computed.values())
    assert min(found["peak_gflops"].values()) > 0
    printed = CliRunner().invoke(kernels, arguments, catch_exceptions=False).output
    assert all(f"GFLOP/s in {name}" in printed for name in computed.values())
    rows = (line.split() for line in printed.splitlines())
    assert any(row[:1] == ["conv"] and precision in row for row in rows)


def test_profile_command_prints_names_as_they_are(tmp_path: Path, rng: np.random.Generator) -> None:
    plain = conv_network((3, 12, 11), 8, (3, 3), padding=(1, 1))
    network = Network.from_json(plain.to_json().replace('"conv"', '"[/x]"'))
    path = tmp_path / "model.jcw"
    JcwExporter().export(Model(network, weights_for(network, rng, 0.3)), path)
    result = CliRunner().invoke(kernels, ["profile", str(path), "--rounds", "1"], catch_exceptions=False)
    assert "[/x]" in result.output


def test_info_command() -> None:
    assert "scalar" in CliRunner().invoke(kernels, ["info"], catch_exceptions=False).output
    found = json.loads(CliRunner().invoke(kernels, ["info", "--json"], catch_exceptions=False).output)
    assert found["isa"] in found["peak_gflops"]
    assert found["peak_gflops"]["scalar"] > 0


@pytest.mark.parametrize("threads", [1, available_cores(), available_cores() + 1, 256])
def test_more_threads_than_processors_are_noted(threads: int) -> None:
    notes = HostPlugin().advise(HostOptions(threads=threads))
    assert len(notes) == (threads > available_cores())
    assert all(f"device.threads = {threads}" in note for note in notes)


def test_a_name_with_escapes_does_not_reach_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    network = conv_network((1, 8, 8), 8, (3, 3))
    odd = "model\x1b[31m.jcw"
    JcwExporter().export(Model(network, weights_for(network, np.random.default_rng(0))), tmp_path / odd)
    done = CliRunner().invoke(kernels, ["profile", odd, "--rounds", "1"])
    assert done.exit_code == 0
    assert "model\\x1b[31m.jcw" in done.output
    assert "\x1b" not in done.output

"""The host device, the exporter, the commands."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from kernel_samples import conv_network, weights_for

from jcw_core.errors import DeviceError
from jcw_core.model import Model
from jcw_core.ops import ACTIVATIONS
from jcw_core.problem import LayerProblem
from jcw_kernels.commands import kernels
from jcw_kernels.exporter import JcwExporter
from jcw_kernels.host import HostDevice, HostOptions

QUICK = HostOptions(layer_ms=0.01, model_ms=0.01)

PROBLEMS = [
    LayerProblem(
        "conv2d", 8, 10, 9, 12, (3, 3), (2, 2), (1, 1), density=0.2, activation="relu", residual=True
    ),
    LayerProblem("conv2d", 8, 10, 9, 12, (3, 3), (1, 1), (1, 1), density=0.0),
    LayerProblem("conv2d", 8, 10, 9, 8, (5, 5), (1, 1), (2, 2), groups=8, activation="hardswish"),
    LayerProblem("conv2d", 8, 10, 9, 8, (3, 3), (1, 1), (1, 1), groups=2),
    LayerProblem("conv2d", 8, 1, 1, 8, activation="sigmoid"),
    LayerProblem("linear", 30, 1, 1, 7, density=0.5, residual=True),
    LayerProblem("max_pool", 8, 10, 9, 8, (3, 3), (2, 2), (1, 1)),
    LayerProblem("avg_pool", 8, 7, 7, 8, (7, 7)),
    LayerProblem("global_avg_pool", 8, 10, 9, 8),
    LayerProblem("flatten", 8, 10, 9, 720),
    LayerProblem("add", 8, 10, 9, 8, activation="relu"),
    LayerProblem("mul", 8, 10, 9, 8),
    LayerProblem("scale", 8, 10, 9, 8),
    LayerProblem("concat", 9, 10, 9, 9),
    LayerProblem("batch_norm", 8, 10, 9, 8, activation="relu6"),
    *(LayerProblem(name, 8, 10, 9, 8) for name in sorted(ACTIVATIONS)),
]


@pytest.mark.parametrize("threads", [1, 2])
def test_times_every_kind_of_layer(threads):
    device = HostDevice(HostOptions(threads=threads, layer_ms=0.01))
    seconds = device.measure(PROBLEMS, rounds=2)
    assert seconds.shape == (2, len(PROBLEMS))
    assert (seconds > 0).all()


def test_no_problems():
    assert HostDevice(QUICK).measure([], rounds=3).shape == (3, 0)


def test_refuses_what_does_no_work():
    with pytest.raises(DeviceError, match="output"):
        HostDevice(QUICK).measure([LayerProblem("output", 1, 1, 1, 1)], rounds=1)


def test_describe():
    info = HostDevice(HostOptions(isa="scalar", threads=2)).describe()
    assert (info.name, info.isa, info.threads) == ("host", "scalar", 2)
    assert info.cpu
    assert "jcw-kernels" in info.versions


@pytest.fixture
def exported(tmp_path, rng):
    network = conv_network((3, 12, 11), 8, (3, 3), padding=(1, 1), activation="relu")
    path = tmp_path / "model.jcw"
    JcwExporter().export(Model(network, weights_for(network, rng, 0.3)), path)
    return path


def test_measures_models(exported):
    assert (HostDevice(QUICK).measure_models([exported, exported], rounds=3) > 0).all()


def test_profile_command(exported):
    result = CliRunner().invoke(kernels, ["profile", str(exported), "--rounds", "2"], catch_exceptions=False)
    assert "sparse" in result.output
    assert "conv" in result.output


def test_info_command():
    assert "scalar" in CliRunner().invoke(kernels, ["info"], catch_exceptions=False).output

"""The example package ``jcw-onnxruntime``: installed with pip, found by its entry point, used as its README says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from commands import command, environment
from core_networks import networks
from hypothesis import given, settings

from jcw_core import plugin as core_plugin
from jcw_core.errors import DeviceError
from jcw_core.formats.onnx_reader import read_onnx
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.operations import ACTIVATIONS, OPERATIONS
from jcw_core.network.problem import LayerProblem
from jcw_core.options import Location, parse
from jcw_core.registry import Registry
from jcw_latency import LatencyTable

onnxruntime = pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "jcw-onnxruntime"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line) for line in re.findall(r"^\$ (.*)$", README, re.MULTILINE)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip put the package, by the README's own command."""
    folder = tmp_path_factory.mktemp("site")
    pip, *words = COMMANDS[0]
    assert (pip, words) == ("pip", ["install", "./examples/jcw-onnxruntime"])
    # What it needs is here already; the environment of the tests stays as it is.
    apart = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, *apart], cwd=ROOT, check=True)
    return folder


@pytest.fixture
def module(installed: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(installed)
    import jcw_onnxruntime

    return jcw_onnxruntime


def jcw(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        command(*arguments), cwd=folder, env=environment() | {"PYTHONPATH": path}, capture_output=True, text=True
    )  # fmt: skip


def test_the_readme_does_what_it_shows(installed: Path, tmp_path: Path) -> None:
    printed = []
    for program, *arguments in COMMANDS[1:]:
        assert program == "jcw"
        done = jcw(installed, tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    table = LatencyTable.load(tmp_path / "ort.npz")
    assert (table.device.name, table.device.versions["onnxruntime"]) == (
        "onnxruntime",
        onnxruntime.__version__,
    )
    assert all((grid.ms[1:] > 0).all() for grid in table.grids if len(grid.axes) == 1)
    assert table.end_to_end["mobilenet_v2"].scale > 0
    assert "5 networks, run whole" in printed[-1]


def test_it_is_listed_with_its_distribution(installed: Path, tmp_path: Path) -> None:
    lines = [line.split() for line in jcw(installed, tmp_path, "plugins").stdout.splitlines()]
    assert ["onnxruntime", "jcw-onnxruntime"] in lines


def test_the_device_of_the_recipe(module: ModuleType) -> None:
    (recipe,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    keys = tomllib.loads(recipe)["device"]
    (plugin,) = module.jcw_register_devices()
    assert keys.pop("name") == plugin.name
    assert plugin.open(parse(plugin.options, keys, Location(EXAMPLE / "README.md"))).describe().threads == 1


CONV = LayerProblem("conv2d", 8, 9, 7, 12, (3, 1), (2, 1), (1, 0), density=0.5)
PLANES = LayerProblem("relu", 8, 9, 7, 8)
DEPTHWISE = LayerProblem("conv2d", 12, 9, 7, 12, (3, 3), (2, 2), (1, 1), groups=12, activation="relu6")
PAIR = LayerProblem("conv2d", 8, 9, 7, 12, density=0.5, activation="relu6", then=DEPTHWISE)
WINDOWED = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}
PROBLEMS = [
    CONV,
    replace(CONV, out_channels=8, groups=8),
    replace(CONV, dilation=(2, 1), padding=(2, 1)),
    LayerProblem(
        "conv_transpose2d",
        8,
        9,
        7,
        12,
        (4, 3),
        (2, 2),
        (1, 0),
        groups=2,
        dilation=(1, 2),
        output_padding=(1, 0),
    ),
    *(replace(CONV, activation=activation) for activation in sorted(ACTIVATIONS)),
    replace(CONV, residual=True, activation="hardswish"),
    PAIR,
    replace(PAIR, activation="", then=replace(DEPTHWISE, residual=True)),
    LayerProblem("linear", 20, 1, 1, 10, activation="relu"),
    *(replace(PLANES, op=op, activation="relu6") for op in ("batch_norm", "add", "mul", "scale")),
    *(replace(PLANES, op=op) for op in sorted(ACTIVATIONS)),
    *(replace(PLANES, op=op, **WINDOWED) for op in ("max_pool", "avg_pool")),
    *(replace(PLANES, op=op) for op in ("global_avg_pool", "concat")),
    replace(PLANES, op="flatten", out_channels=8 * 9 * 7),
    LayerProblem("concat", 1, 5, 5, 1),
    *(LayerProblem(op, 4, 6, 5, 4) for op in ("leaky_relu", "prelu")),
    LayerProblem("conv2d", 4, 6, 5, 8, activation="prelu"),
]


def outputs(content: bytes) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()})


REFUSED = frozenset(
    {
        "channel_shuffle", "clip", "elu", "pixel_shuffle", "resize_bilinear", "resize_nearest",
        "slice", "softmax", "unflatten",
    }
)  # fmt: skip
"""Operations that this device does not time, and says so by name."""


def test_every_operation_is_covered() -> None:
    known = OPERATIONS.keys() - {"input", "output"} | {"scale"}
    assert {problem.op for problem in PROBLEMS} == known - REFUSED
    assert known >= REFUSED


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: " ".join(filter(None, [p.op, p.activation])))
def test_every_layer_is_the_one_that_was_asked_for(
    module: ModuleType, problem: LayerProblem, tmp_path: Path
) -> None:
    content = module.layer_model(problem, np.random.default_rng(0))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    (made,) = outputs(content)
    last = problem.then or problem
    flat = last.op in ("linear", "flatten")
    size = () if flat else (last.out_height, last.out_width)
    assert made.shape == (1, last.out_channels, *size)
    inputs = 1 + last.residual + (problem.op in ("add", "mul", "scale", "concat") and problem.in_channels > 1)
    if inputs == 1:
        (tmp_path / "layer.onnx").write_bytes(content)
        network = read_onnx(tmp_path / "layer.onnx")
        assert [problem_of(network, unit, problem.density) for unit in fuse(network)] == [problem]
    else:
        assert len(onnx.load_from_string(content).graph.input) == inputs


@settings(max_examples=25)
@given(network=networks())
def test_layers_of_random_networks(module: ModuleType, network: Network) -> None:
    for layer in fuse(network):
        problem = problem_of(network, layer)
        if problem.op in REFUSED or problem.activation in REFUSED:
            with pytest.raises(DeviceError, match=f"{problem.op}|{problem.activation or problem.op}"):
                module.layer_model(problem, np.random.default_rng(0))
            continue
        if any(more >= step for more, step in zip(problem.output_padding, problem.stride, strict=True)):
            continue  # onnxruntime adds less than a stride
        (made,) = outputs(module.layer_model(problem, np.random.default_rng(0)))
        # A fully connected layer apart, what is flat counts as a plane of one pixel.
        assert made.size == np.prod(network.shapes[layer.output])


def test_pruned_weights_are_zeros(module: ModuleType) -> None:
    problem = LayerProblem("conv2d", 64, 8, 8, 64, (3, 3), padding=(1, 1), density=0.25)
    graph = onnx.load_from_string(module.layer_model(problem, np.random.default_rng(0))).graph
    weight = onnx.numpy_helper.to_array(graph.initializer[0])
    assert weight.shape == (64, 64, 3, 3)
    assert np.mean(weight != 0) == pytest.approx(0.25, abs=0.01)


def test_times_have_a_row_for_each_round(module: ModuleType) -> None:
    seconds = module.OnnxRuntimeDevice(module.Options()).measure(PROBLEMS[:3], rounds=2)
    assert seconds.shape == (2, 3)
    assert (seconds > 0).all()


def test_layers_and_models_that_cannot_be_timed_are_refused_in_one_line(
    module: ModuleType, tmp_path: Path
) -> None:
    device = module.OnnxRuntimeDevice(module.Options())
    with pytest.raises(DeviceError, match="'input' does no work"):
        device.measure([LayerProblem("input", 3, 8, 8, 3)], rounds=1)
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(DeviceError, match=r"refuses .*bad\.onnx") as caught:
        device.measure_models([tmp_path / "bad.onnx"], rounds=1)
    assert "\n" not in str(caught.value)


def test_whole_models_have_an_exporter_in_the_core(module: ModuleType) -> None:
    core = Registry({"core": core_plugin}, installed=False)
    assert module.OnnxRuntimeDevice(module.Options()).model_format in core.exporters

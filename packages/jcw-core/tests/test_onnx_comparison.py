"""A network that is read from an ONNX file computes what the file does, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import helper, model, onnx, step

from jcw_core.errors import FormatError, JcwWarning
from jcw_core.formats.onnx_reader import comparison, network, read_onnx, read_onnx_model
from jcw_core.formats.onnx_reader.pointwise import POINTWISE
from jcw_core.formats.onnx_reader.runtimes import Runtime, evaluate, runtimes

SOFTMAX = step("Softmax", "x", axis=1)


@pytest.fixture(params=["onnxruntime", "onnx's reference"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """The only one that there is."""
    known = runtimes()
    if request.param not in known:
        pytest.skip(f"{request.param} is not installed")
    only: Mapping[str, Runtime] = {request.param: known[request.param]}
    monkeypatch.setattr(comparison, "runtimes", lambda: only)
    return only[request.param]


def stored(folder: Path, *arguments: Any, **options: Any) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(model(*arguments, **options).SerializeToString())
    return path


def random(name: str, *shape: int) -> Any:
    values = np.random.default_rng(len(name)).uniform(0.2, 1, shape)
    return onnx.numpy_helper.from_array(values.astype(np.float32), name)


def test_a_softmax_of_an_old_file_takes_all_axes_together(tmp_path: Path, runtime: Runtime) -> None:
    path = stored(tmp_path, [SOFTMAX], shape=(1, 4, 9, 9), opset=9)
    for read in (read_onnx, read_onnx_model):
        with pytest.raises(FormatError, match=r"over all of \(4, 9, 9\) together.*before opset 13"):
            read(path)
    for shape, opset in (((1, 4, 1, 1), 9), ((2, 4), 9), ((1, 4, 9, 9), 13)):
        steps = [SOFTMAX] if len(shape) > 2 else [step("Flatten", "x", to="f"), step("Softmax", "f", to="s")]
        path = stored(tmp_path, steps, shape=(*shape, 1, 1)[:4], opset=opset)
        assert "softmax" in [node.op for node in read_onnx_model(path).network]


def test_what_computes_something_else_is_refused_by_its_node(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [step("Relu", "x", name="first"), step("Sigmoid", "relu"), step("Elu", "sigmoid", name="last")]
    path = stored(tmp_path, steps)
    assert read_onnx_model(path).network.shapes
    monkeypatch.setitem(network.OPERATORS, "Sigmoid", partial(POINTWISE["Relu"]))
    with pytest.raises(FormatError, match=r"net\.onnx: .*first at node 'Sigmoid' \(Sigmoid\)"):
        read_onnx_model(path)


def test_only_what_the_outputs_need_is_run(tmp_path: Path, runtime: Runtime) -> None:
    """The tail may be what no runtime knows, and the input have an open size."""
    tail = helper.make_node("Decode", ["relu"], ["boxes"], domain="other")
    path = stored(tmp_path, [step("Relu", "x"), step("Elu", "relu"), tail], shape=("n", 4, "h", -1))
    found = read_onnx_model(path, (1, 4, 5, 7), ["elu", "relu"])
    assert found.network.num_classes == 2 * 4 * 5 * 7


def test_what_nothing_runs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: Any, value: Any) -> Any:
        raise ValueError("no kernel\nand more")

    monkeypatch.setattr(comparison, "runtimes", lambda: {"toaster": broken})
    with pytest.warns(JcwWarning, match=r"net\.onnx: is not compared.*\(toaster: no kernel\)$"):
        read_onnx_model(stored(tmp_path, [step("Relu", "x")]))


WINDOWS: list[dict[str, Any]] = [
    {"pads": (0, 1, 2, 0), "strides": (2, 1)},
    {"auto_pad": "SAME_UPPER", "strides": (2, 3)},
    {"auto_pad": "SAME_LOWER", "strides": (3, 1)},
    {"auto_pad": "VALID", "dilations": (2, 1)},
    {"group": 2},
]


@pytest.mark.parametrize("window", WINDOWS)
def test_the_reference_computes_old_files_as_onnxruntime_does(window: dict[str, Any]) -> None:
    """Convolutions, batch norm and softmax, which the reference of onnx has as its newest version has them."""
    pytest.importorskip("onnxruntime")
    steps = [
        step("Conv", "x", "w", "b", to="c", **window),
        step("BatchNormalization", "c", "s", "t", "mm", "vv", to="n"),
        step("Softmax", "n"),
    ]
    tensors = [random("w", 4, 4 // window.get("group", 1), 3, 2)]
    tensors += [random(name, 4) for name in ("b", "s", "t", "mm", "vv")]
    made = model(steps, tensors, shape=(2, 4, 7, 8), opset=9)
    image = np.random.default_rng(0).normal(size=(2, 4, 7, 8)).astype(np.float32)
    (wanted,), (found,) = (evaluate(each, made, image) for each in runtimes().values())
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7)

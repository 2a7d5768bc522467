"""ONNX files that are written, run by onnxruntime, against torch in float64."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.errors import JcwError
from jcw_core.formats.onnx_writer import OnnxExporter, to_onnx
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.image_input import ImageInput
from jcw_core.network.model import Model
from jcw_core.network.operations import OPERATIONS
from jcw_core.network.weight_groups import density_mask

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def every_operation() -> Network:
    net = NetworkBuilder("every", (3, 11, 13))
    net.conv("conv", 8, 3, 2)
    net.batch_norm("bn", eps=1e-3)
    start = net.add("relu6", "relu6")
    net.add(
        "conv_odd",
        "conv2d",
        out_channels=8,
        kernel_size=(3, 1),
        stride=(1, 1),
        padding=(1, 0),
        groups=2,
        bias=True,
    )
    uneven = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (0, 2, 2, 0)}
    net.add("uneven", "conv2d", out_channels=8, groups=8, bias=False, **uneven)
    net.add("max_uneven", "max_pool", **uneven)
    net.add("avg_uneven", "avg_pool", **uneven)
    net.add("hardswish", "hardswish")
    net.add("sum", "add", "hardswish", start)
    net.add("silu", "silu")
    net.add("squeeze", "global_avg_pool")
    net.add("hardsigmoid", "hardsigmoid")
    net.add("scale", "mul", "silu", "hardsigmoid")
    net.pool("max", "max_pool", 3, 1, 1)
    net.pool("avg", "avg_pool", 3, 1, 1, source="scale")
    net.add("join", "concat", "max", "avg")
    net.add("relu", "relu")
    net.add("sigmoid", "sigmoid")
    net.add("clip", "clip", low=-0.2, high=0.7)
    net.add("leaky", "leaky_relu", slope=0.3)
    net.add("shuffle", "channel_shuffle", groups=4)
    net.add("part", "slice", start=3, stop=11)
    net.add("pixels", "pixel_shuffle", factor=2)
    net.conv("wide", 8, 1)
    net.add("prelu", "prelu")
    net.add("twice", "resize_nearest", scale=(2, 3))
    net.add("thrice", "resize_bilinear", scale=(3, 2))
    net.add("elu", "elu", alpha=0.7)
    net.add("corners", "resize_bilinear", scale=(1, 2), align_corners=True)
    net.add("to", "resize_nearest", size=(37, 31))
    net.add("to_corners", "resize_bilinear", size=(31, 41), align_corners=True)
    net.add("less", "resize_bilinear", size=(36, 54))
    net.add(
        "dilated",
        "conv2d",
        out_channels=8,
        kernel_size=(3, 2),
        stride=(2, 1),
        padding=(2, 1),
        groups=2,
        bias=True,
        dilation=(2, 3),
    )
    net.add(
        "up",
        "conv_transpose2d",
        out_channels=12,
        kernel_size=(4, 3),
        stride=(2, 2),
        padding=(1, 0, 2, 1),
        groups=2,
        bias=True,
        dilation=(1, 2),
        output_padding=(1, 0),
    )
    net.pool("small", "avg_pool", 5, 5)
    net.add("flat", "flatten")
    net.linear("fc1", 6, bias=False)
    net.add("flat_prelu", "prelu")
    net.add("plane", "unflatten")
    net.add("softmax", "softmax")
    net.add("flat_again", "flatten")
    net.linear("fc2", 5)
    return net.build()


def random_model(network: Network, rng: np.random.Generator, density: float) -> Model:
    arrays = {}
    for name, shape in {**network.parameter_shapes, **network.buffer_shapes}.items():
        array = rng.standard_normal(shape)
        if len(shape) > 1:
            array *= density_mask(array, density) / np.sqrt(np.prod(shape[1:]))
        elif name.endswith("running_var"):
            array = np.abs(array) + 0.5
        arrays[name] = array.astype(np.float32)
    return Model(network, arrays)


def torch_outputs(model: Model, images: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    from jcw_core.training.module import Slimmable

    module = Slimmable(model.network, np.random.default_rng(0))
    module.load_state_dict({name: torch.from_numpy(array) for name, array in model.weights.items()})
    with torch.no_grad():
        return module.double().eval()(torch.from_numpy(images).double()).numpy()


def run_onnx(content: bytes, images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(["output"], {"input": images})[0]


def test_every_operation_is_covered():
    assert {node.op for node in every_operation()} == set(OPERATIONS)


@pytest.mark.parametrize(
    "network", [every_operation(), mobilenet_v2(input_size=32, num_classes=10)], ids=lambda n: n.name
)
def test_agrees_with_torch(network, tmp_path):
    rng = np.random.default_rng(3)
    model = random_model(network, rng, 0.5)
    images = rng.standard_normal((2, *network.input_shape), dtype=np.float32)
    OnnxExporter().export(model, tmp_path / "model.onnx")
    want = torch_outputs(model, images)
    got = run_onnx((tmp_path / "model.onnx").read_bytes(), images)
    np.testing.assert_allclose(got, want, atol=2e-5 * np.abs(want).max())


def test_weights_are_kept_as_they_are_zeros_included():
    import onnx

    model = random_model(every_operation(), np.random.default_rng(4), 0.3)
    proto = to_onnx(model, batch=1)
    onnx.checker.check_model(proto, full_check=True)
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    transposed = {f"{node.name}.weight": node for node in model.network if node.op == "conv_transpose2d"}
    for name, array in model.weights.items():
        if name in transposed:
            # ONNX has their inputs first: (in, out / groups, height, width).
            groups = transposed[name].attributes["groups"]
            by_group = array.reshape(groups, -1, *array.shape[1:])
            array = by_group.swapaxes(1, 2).reshape(-1, by_group.shape[1], *array.shape[2:])
        # Slopes have axes of one element after them, to be broadcast over planes.
        np.testing.assert_array_equal(found[name].reshape(array.shape), array)
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1


def test_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(JcwError, match=r"jcw-core\[onnx\]"):
        to_onnx(random_model(every_operation(), np.random.default_rng(5), 1.0))


def tiny() -> Model:
    net = NetworkBuilder("tiny", (3, 4, 4))
    net.conv("conv1", 4, 3)
    network = net.build()
    rng = np.random.default_rng(0)
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    return Model(network, {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})


def test_what_is_known_of_images_travels_in_the_metadata() -> None:
    images = ImageInput((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), 40, ("a", "b"), "photo")
    written = to_onnx(replace(tiny(), images=images))
    (entry,) = written.metadata_props
    assert (entry.key, ImageInput.from_json(entry.value)) == ("images", images)
    assert written.graph.input[0].name == "photo"
    onnx.checker.check_model(written)


@pytest.mark.parametrize("name", ["output", "conv1", "conv1.weight"])
def test_an_input_is_not_called_like_something_else(name: str) -> None:
    images = ImageInput((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), 40, (), name)
    written = to_onnx(replace(tiny(), images=images))
    assert written.graph.input[0].name == "input"
    onnx.checker.check_model(written)

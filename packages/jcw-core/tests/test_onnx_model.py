"""ONNX files with their weights: what the network computes is what onnxruntime makes of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_networks import networks, random_weights, small_resnet
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_agreement import agrees, outputs, random, read
from onnx_models import model, numbers, onnx, step

from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader import read_onnx, read_onnx_model
from jcw_core.formats.onnx_writer import to_onnx
from jcw_core.network.model import Model
from jcw_core.space.space import prunable_layers


# There are transposed convolutions that no runtime takes.
@pytest.mark.filterwarnings("ignore:.*is not compared with its network:jcw_core.errors.JcwWarning")
@given(network=networks(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_what_is_written_is_read_back(tmp_path: Path, network: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    written = Model(network, random_weights(network, rng))
    found = read(tmp_path, to_onnx(written).SerializeToString())
    images = rng.normal(size=(1, *network.input_shape))
    np.testing.assert_allclose(outputs(found, images), outputs(written, images), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("network", [small_resnet(), mobilenet_v2(input_size=32, num_classes=10)])
def test_names_and_values_of_weights(tmp_path: Path, network: Any) -> None:
    written = Model(network, random_weights(network, np.random.default_rng(0)))
    found = read(tmp_path, to_onnx(written).SerializeToString())
    assert found.weights.keys() == written.weights.keys()
    assert all((found.weights[name] == array).all() for name, array in written.weights.items())
    assert found.network == read_onnx(tmp_path / "net.onnx")


def conv_and(rng: np.random.Generator, *steps: Any, tensors: Any = ()) -> bytes:
    first = step("Conv", "x", "w", to="c", kernel_shape=(3, 3), pads=(0, 1, 1, 2), strides=(2, 1))
    return model([first, *steps], [random("w", 5, 4, 3, 3, rng=rng), *tensors]).SerializeToString()


def test_constants_beside_layers(tmp_path: Path, rng: np.random.Generator) -> None:
    """Biases as Add, scales as Mul and Div, as Paddle and normalisation write them."""
    bias, scale = random("b", 1, 5, 1, 1, rng=rng), random("var", 5, 1, 1, rng=rng)
    found = agrees(tmp_path, conv_and(rng, step("Add", "c", "b"), tensors=[bias]))
    assert [node.op for node in found.network] == ["input", "conv2d", "output"]
    cases = [
        [step("Mul", "c", "var")],
        [step("Div", "c", "var")],
        [step("Sub", "c", "b")],
        [step("Sub", "b", "c")],
        [step("Relu", "c"), step("Sub", "c", "relu")],
        [step("Add", "b", "c", to="s"), step("Add", "s", "b", to="t", name="again"), step("Relu", "t")],
        [step("Add", "c", "three", to="s"), step("Relu", "s")],
        [step("Add", "c", "three", to="s"), step("Clip", "s", "zero", "six", to="k"), step("Relu", "k")],
        [step("Mul", "c", "three")],
        [step("HardSigmoid", "c")],
        [step("HardSigmoid", "c", alpha=0.1666, beta=0.5)],
        [step("HardSigmoid", "c", alpha=1 / 6, to="h"), step("Mul", "h", "c")],
        [step("Clip", "c", "zero", "three"), step("LeakyRelu", "clip", alpha=0.2)],
        [step("Clip", "c", "", "zero"), step("Elu", "clip", alpha=0.7)],
        [step("PRelu", "c", "b")],
        [step("Split", "c", "sizes", axis=1, to="one"), step("Relu", "one")],
        [step("Slice", "c", "low", "high", "one_axis"), step("Softmax", "slice", axis=1)],
        [step("Slice", "c", "last", "high", "rows", "two"), step("Relu", "slice")],
        [
            step(
                "Resize",
                "c",
                "",
                "factors",
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        ],
        [step("Resize", "c", "", "factors", mode="nearest")],
        [
            step(
                "Resize",
                "c",
                "",
                "factors",
                mode="linear",
                coordinate_transformation_mode="pytorch_half_pixel",
            )
        ],
        [step("ConvTranspose", "c", "up", "upb", strides=(2, 2))],
        [step("ConvTranspose", "c", "up", "upb", strides=(2, 1), pads=(0, 1, 1, 0), output_padding=(1, 0))],
        [
            step("ConvTranspose", "c", "up", strides=(3, 2), dilations=(2, 1)),
            step("Add", "convtranspose", "upb3"),
        ],
        [step("ConvTranspose", "c", "each", group=5, to="t"), step("Mul", "t", "three")],
        [step("ConvTranspose", "c", "up", strides=(2, 1), auto_pad="SAME_UPPER")],
        [step("ConvTranspose", "c", "up", strides=(3, 3), output_shape=(7, 18))],
        [step("Conv", "c", "dilated", name="second", dilations=(2, 3), pads=(2, 0, 1, 1))],
        [
            step("Reshape", "c", "groups", to="g"),
            step("Transpose", "g", perm=(0, 2, 1, 3, 4)),
            step("Reshape", "transpose", "back", name="back"),
        ],
        [
            step("Constant", value=numbers("", [0.5] * 5), to="k"),
            step("Reshape", "k", "across", to="kb"),
            step("Add", "c", "kb"),
        ],
        [step("Relu", "c", to="r"), step("Add", "r", "b", to="s"), step("Mul", "s", "c")],
    ]
    tensors = [
        *(bias, scale, numbers("three", 3), numbers("zero", 0), numbers("six", 6)),
        *(
            numbers(name, [value], np.int64)
            for name, value in [
                ("low", 1),
                ("high", 100),
                ("one_axis", 1),
                ("rows", 2),
                ("two", 2),
                ("last", 1),
            ]
        ),
        numbers("sizes", [5], np.int64),
        numbers("factors", [1, 1, 2, 3]),
        random("up", 5, 3, 2, 2, rng=rng),
        random("upb", 3, rng=rng),
        random("upb3", 1, 3, 1, 1, rng=rng),
        random("each", 5, 3, 3, 2, rng=rng),
        random("dilated", 4, 5, 2, 2, rng=rng),
        numbers("groups", [0, 5, 1, 3, 7], np.int64),
        numbers("back", [0, 5, 3, 7], np.int64),
        numbers("across", [1, -1, 1, 1], np.int64),
    ]
    for steps in cases:
        agrees(tmp_path, conv_and(rng, *steps, tensors=tensors))


ALIGNED = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        (("", "", "sizes"), {"mode": "linear"}),
        (("", "", "sizes"), ALIGNED),
        (("", "", "pair"), {**ALIGNED, "axes": (2, 3)}),
        (("", "", "turned"), {"mode": "linear", "axes": (3, 2)}),
        (("", "halves"), {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
        (("", "halves"), {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        (
            ("", "", "sizes"),
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        ),
        (("", "thirds"), {**ALIGNED, "axes": (-1,)}),
    ],
)
def test_planes_are_resized(
    tmp_path: Path, inputs: tuple[str, ...], attributes: dict[str, Any], rng: np.random.Generator
) -> None:
    steps = [
        step("Conv", "x", "w", to="c", kernel_shape=(1, 1)),
        step("Resize", "c", *inputs, **attributes),
    ]
    tensors = [
        random("w", 5, 4, 1, 1, rng=rng),
        numbers("sizes", [1, 5, 9, 4], np.int64),
        numbers("pair", [7, 13], np.int64),
        numbers("turned", [13, 7], np.int64),
        numbers("halves", [1, 1, 1.5, 0.5]),
        numbers("thirds", [1 / 3]),
    ]
    agrees(tmp_path, model(steps, tensors, opset=18).SerializeToString())


def test_normalisation_at_the_input(tmp_path: Path, rng: np.random.Generator) -> None:
    steps = [
        step("Sub", "x", "mean"),
        step("Div", "sub", "var"),
        step("Conv", "div", "w", kernel_shape=(3, 3)),
        step("BatchNormalization", "conv", *(f"{key}bn" for key in ("w", "b", "mean", "var"))),
    ]
    tensors = [random(name, 1, 4, 1, 1, rng=rng) for name in ("mean", "var")]
    tensors += [
        random("w", 5, 4, 3, 3, rng=rng),
        *(random(f"{k}bn", 5, rng=rng) for k in ("w", "b", "mean", "var")),
    ]
    agrees(tmp_path, model(steps, tensors).SerializeToString())


@pytest.mark.parametrize("transposed", [0, 1])
def test_linear_layers(tmp_path: Path, transposed: int, rng: np.random.Generator) -> None:
    shape = (5, 144) if transposed else (144, 5)
    steps = [
        step("Flatten", "x"),
        step("Gemm", "flatten", "w", "b", transB=transposed, alpha=0.5, beta=-2.0),
        step("MatMul", "gemm", "m"),
        step("Add", "matmul", "b2"),
    ]
    tensors = [
        random("w", *shape, rng=rng),
        random("b", 5, rng=rng),
        random("m", 5, 3, rng=rng),
        random("b2", 3, rng=rng),
    ]
    found = agrees(tmp_path, model(steps, tensors).SerializeToString())
    assert [node.op for node in found.network][1:-1] == ["flatten", "linear", "linear"]


def test_one_weight_of_two_layers(tmp_path: Path, rng: np.random.Generator) -> None:
    steps = [
        step("Conv", "x", "w", to="one", name="one"),
        step("Relu", "one"),
        step("Conv", "relu", "w", name="two"),
    ]
    found = agrees(tmp_path, model(steps, [random("w", 4, 4, 1, 1, rng=rng)]).SerializeToString())
    assert dict(found.network.shared) == {"one": "two", "two": "one"}
    assert prunable_layers(found.network) == ()


def test_weights_in_a_further_file(tmp_path: Path, rng: np.random.Generator) -> None:
    content = onnx.ModelProto.FromString(conv_and(rng, step("Relu", "c")))
    onnx.save(content, tmp_path / "plain.onnx")
    plain = read_onnx_model(tmp_path / "plain.onnx")
    onnx.save(
        content, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0
    )
    found = read_onnx_model(tmp_path / "net.onnx")
    assert all((found.weights[name] == array).all() for name, array in plain.weights.items())
    (tmp_path / "net.data").rename(tmp_path / "gone")
    with pytest.raises(FormatError, match=r"net\.onnx: tensor 'w'.*'net.data', which is not there"):
        read_onnx_model(tmp_path / "net.onnx")
    assert read_onnx(tmp_path / "net.onnx") == found.network


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname"])
def test_further_files_lie_beside(tmp_path: Path, location: str, rng: np.random.Generator) -> None:
    content = onnx.ModelProto.FromString(conv_and(rng, step("Relu", "c")))
    (tmp_path / "secret").write_bytes(bytes(4096))
    (tmp_path / "in").mkdir()
    for tensor in content.graph.initializer:
        onnx.external_data_helper.set_external_data(tensor, location)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.ClearField("raw_data")
    with pytest.raises(FormatError, match="outside the file's folder"):
        read(tmp_path / "in", content.SerializeToString())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers(tmp_path: Path, value: float, rng: np.random.Generator) -> None:
    weight = numbers("w", np.full((5, 4, 1, 1), value))
    content = model([step("Conv", "x", "w", name="stem/Conv")], [weight]).SerializeToString()
    with pytest.raises(FormatError, match=r"net\.onnx: .*stem\.weight holds NaN or infinity"):
        read(tmp_path, content)


def test_depth_to_space_in_either_order(tmp_path: Path) -> None:
    for mode, more in (("DCR", ["channel_shuffle"]), ("CRD", [])):
        steps = [step("DepthToSpace", "x", blocksize=2, mode=mode)]
        found = agrees(tmp_path, model(steps, shape=(1, 12, 2, 3)).SerializeToString(), (1, 12, 2, 3))
        assert [node.op for node in found.network] == ["input", *more, "pixel_shuffle", "output"]
    found = agrees(tmp_path, model([step("DepthToSpace", "x", blocksize=2)]).SerializeToString())
    assert "channel_shuffle" not in [node.op for node in found.network]


def test_obstacles_of_a_kind_are_told_once(tmp_path: Path) -> None:
    steps = [step("Erf", "x", name=f"erf{i}", to=f"e{i}") for i in range(40)]
    steps += [step("Concat", "x", "x", axis=2 + i % 2, name=f"join{i}", to=f"j{i}") for i in range(5)]
    steps += [step("Concat", *(f"e{i}" for i in range(40)), *(f"j{i}" for i in range(5)), axis=1)]
    with pytest.raises(FormatError) as caught:
        read(tmp_path, model(steps).SerializeToString())
    said = str(caught.value)
    assert "nodes 'erf0', 'erf1', 'erf2' and 37 more (Erf): this operator has no place" in said
    assert "nodes 'join0', 'join1', 'join2' and 2 more (Concat): joins along axis 2" in said
    assert said.count("there is: Add, ") == 1
    assert len(said) < 1200
    assert "--outputs" in said


def test_every_obstacle_is_told_at_once(tmp_path: Path) -> None:
    steps = [step("Erf", "x"), step("Relu", "erf"), step("Sin", "x"), step("Add", "relu", "sin")]
    with pytest.raises(FormatError, match=r"net\.onnx: node 'Erf' .*; node 'Sin' ") as caught:
        read(tmp_path, model(steps).SerializeToString())
    assert "Relu'" not in str(caught.value)
    assert "'Add'" not in str(caught.value)


@pytest.mark.parametrize("dims", [("n", 4, "h", "w"), ("n", 4, -1, 0), (1, 4, 6, "w")])
def test_open_sizes_are_given(tmp_path: Path, dims: Any) -> None:
    content = model([step("Relu", "x")], shape=dims).SerializeToString()
    with pytest.raises(
        FormatError, match=r"input 'x' has the shape .*--shape 1,3,224,224.*\[network\] shape"
    ):
        read(tmp_path, content)
    assert read(tmp_path, content, (1, 4, 6, 6)).network.input_shape == (4, 6, 6)
    for shape in [(1, 3, 6, 6), (4, 6, 6), (1, 4, 6, 6, 1)]:
        with pytest.raises(FormatError, match=r"the shape .* does not go with it"):
            read(tmp_path, content, shape)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)

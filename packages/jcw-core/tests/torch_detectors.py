"""More networks as people write them in torch: grouped, dilated and transposed convolutions, and a detector. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor, nn
from torch_networks import BasicBlock, SqueezeExcite, conv_norm


class YBlock(nn.Module):
    """Of a RegNetY: groups of so many channels, and a squeeze-excite a quarter as wide as what it reads."""

    def __init__(self, inputs: int, width: int, stride: int, group: int) -> None:
        super().__init__()
        self.proj = conv_norm(inputs, width, 1, stride) if stride != 1 or inputs != width else None
        self.f = nn.Sequential(
            conv_norm(inputs, width, 1, act=nn.ReLU(inplace=True)),
            conv_norm(width, width, 3, stride, groups=width // group, act=nn.ReLU(inplace=True)),
            SqueezeExcite(width, max(1, inputs // 4), nn.ReLU(), nn.Sigmoid()),
            conv_norm(width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu((x if self.proj is None else self.proj(x)) + self.f(x))


class RegNetY(nn.Module):
    """In the form of RegNetY-400MF, whose groups have 8 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 8, 3, 2, act=nn.ReLU(inplace=True))
        self.trunk = nn.Sequential(YBlock(8, 16, 2, 8), YBlock(16, 32, 2, 8), YBlock(32, 32, 1, 8))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.avgpool(self.trunk(self.stem(x))).flatten(start_dim=1))


class Aspp(nn.Module):
    """A segmenter in the form of DeepLabV3: dilated convolutions side by side, and one depthwise."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 8, 3, 2, act=nn.ReLU())
        self.deep = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8, bias=False)
        self.convs = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(8, 6, 3, padding=rate, dilation=rate, bias=False), nn.BatchNorm2d(6), nn.ReLU()
            )
            for rate in (1, 3, 5)
        )
        self.same = nn.Conv2d(18, 8, (3, 2), padding="same", dilation=(1, 2))
        self.project = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(self.stem(x))
        y = self.project(F.relu(self.same(torch.cat([conv(y) for conv in self.convs], dim=1))))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


class Decoder(nn.Module):
    """Heat maps by transposed convolutions, in the forms that are in use, grouped ones and one by channel as well."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 12, 3, 4, act=nn.ReLU())
        self.four = nn.ConvTranspose2d(12, 8, 4, 2, 1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.three = nn.ConvTranspose2d(8, 12, 3, stride=2, padding=1, output_padding=1)
        self.grouped = nn.ConvTranspose2d(12, 24, (2, 3), (1, 2), (0, 1), groups=3, dilation=(2, 1))
        self.channels = nn.ConvTranspose2d(24, 24, 4, stride=2, padding=1, groups=24)
        self.heat, self.offset = nn.Conv2d(24, 3, 1), nn.Conv2d(24, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.bn(self.four(self.stem(x))))
        x = F.relu(self.grouped(F.relu(self.three(x))))
        x = F.max_pool2d(F.relu(self.channels(x)), 3, 2)
        return self.heat(x).sigmoid(), self.offset(x)


class Scale(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(value))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Fpn(nn.Module):
    """A pyramid with a head that all its levels share, as RetinaNet and FCOS have it; its decoding stays outside."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.2, 0.3, 0.25]).view(1, 3, 1, 1))
        self.stem = conv_norm(3, 8, 3, 2, act=nn.ReLU(inplace=True))
        self.layers = nn.ModuleList([BasicBlock(8, 12, 2), BasicBlock(12, 16, 2), BasicBlock(16, 24, 2)])
        self.inner = nn.ModuleList(nn.Conv2d(width, 8, 1) for width in (12, 16, 24))
        self.outer = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.tower = nn.Sequential(nn.Conv2d(8, 12, 3, padding=1), nn.ReLU())
        self.classes, self.boxes = nn.Conv2d(12, 6, 3, padding=1), nn.Conv2d(12, 4, 3, padding=1)
        self.scales = nn.ModuleList(Scale(1.0 + level) for level in range(3))

    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        x, levels = self.stem((x - self.mean) / self.std), []
        for layer in self.layers:
            x = layer(x)
            levels.append(x)
        merged = self.inner[2](levels[2])
        pyramid = [self.outer[2](merged)]
        for level in (1, 0):
            inner = self.inner[level](levels[level])
            merged = inner + F.interpolate(merged, size=inner.shape[-2:], mode="nearest")
            pyramid.insert(0, self.outer[level](merged))
        towers = [self.tower(level) for level in pyramid]
        boxes = [F.relu(scale(self.boxes(y))) for scale, y in zip(self.scales, towers, strict=True)]
        return {"classes": [self.classes(y) for y in towers], "boxes": boxes}


CUT: Mapping[str, Callable[[], nn.Module]] = {"regnet_y_400mf": RegNetY, "deeplab": Aspp, "decoder": Decoder}
"""Networks of which all channels can be cut, grouped convolutions by whole groups."""

DETECTORS: Mapping[str, Callable[[], nn.Module]] = {"fpn": Fpn}
"""Of several outputs, and a head that stays whole, as its levels share it."""


def flat(outputs: object) -> Tensor:
    """All outputs of a network for one image as one vector."""
    if isinstance(outputs, Tensor):
        return outputs.flatten()
    parts = list(outputs.values()) if isinstance(outputs, dict) else outputs
    assert isinstance(parts, (list, tuple))
    return torch.cat([flat(part) for part in parts])

"""Networks as people write them in torch, small: what the importer has to take as it is. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from torch import Tensor, nn


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    *,
    groups: int = 1,
    act: nn.Module | None = None,
) -> nn.Sequential:
    parts = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*parts, *([] if act is None else [act]))


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = conv_norm(inputs, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = conv_norm(inputs, 4 * width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block: Callable[..., nn.Module], growth: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(block(8, 8, 1), block(8 * growth, 8, 1))
        self.layer2 = nn.Sequential(block(8 * growth, 12, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(12 * growth, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class PlainBlock(nn.Module):
    """Of CIFAR's residual networks: shortcuts have no weights, they leave out pixels and add channels of zeros."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.stride, self.added = stride, width - inputs

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.added:
            half = self.added // 2
            x = F.pad(
                x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.added - half), "constant", 0
            )
        return F.relu(out + x)


class InvertedResidual(nn.Module):
    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int,
        act: type[nn.Module],
        *,
        squeeze: nn.Module | None = None,
    ) -> None:
        super().__init__()
        hidden = 4 * inputs
        self.conv = nn.Sequential(
            conv_norm(inputs, hidden, 1, act=act()),
            conv_norm(hidden, hidden, 3, stride, groups=hidden, act=act()),
            *([] if squeeze is None else [squeeze]),
            conv_norm(hidden, outputs, 1),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, squeezed: int, act: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.act, self.gate = act, gate

    def forward(self, x: Tensor) -> Tensor:
        scale = self.gate(self.fc2(self.act(self.fc1(self.avgpool(x)))))
        return scale * x


class MobileNetV1(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(
            conv_norm(3, 8, 3, 2, act=nn.ReLU()),
            *(conv_norm(8, 8, groups=8, act=nn.ReLU()), conv_norm(8, 12, 1, act=nn.ReLU())),
            *(conv_norm(12, 12, 3, 2, groups=12, act=nn.ReLU()), conv_norm(12, 16, 1, act=nn.ReLU())),
            nn.AvgPool2d(8),
        )
        self.fc = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.model(x).view(-1, 16))


class MobileNetV2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_norm(3, 8, 3, 2, act=nn.ReLU6(inplace=True)),
            InvertedResidual(8, 8, 1, nn.ReLU6),
            InvertedResidual(8, 12, 2, nn.ReLU6),
            InvertedResidual(12, 12, 1, nn.ReLU6),
            conv_norm(12, 20, 1, act=nn.ReLU6()),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(20, 5))

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        squeeze = [SqueezeExcite(n, 8, nn.ReLU(), nn.Hardsigmoid()) for n in (32, 48)]
        self.features = nn.Sequential(
            conv_norm(3, 8, 3, 2, act=nn.Hardswish(inplace=True)),
            InvertedResidual(8, 12, 2, nn.ReLU, squeeze=squeeze[0]),
            InvertedResidual(12, 12, 1, nn.Hardswish, squeeze=squeeze[1]),
        )
        self.classifier = nn.Sequential(nn.Linear(12, 16), nn.Hardswish(), nn.Dropout(), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class EfficientNet(nn.Module):
    """With Swish written out, as the port that most people have does."""

    class Swish(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(x)

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 8, 3, 2, act=nn.SiLU(inplace=True))
        self.blocks = nn.ModuleList(
            InvertedResidual(8, n, 1, self.Swish, squeeze=SqueezeExcite(32, 2, self.Swish(), nn.Sigmoid()))
            for n in (8, 12)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.fc(self.pool(x).flatten(start_dim=1))


class Vgg(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for width in (8, "M", 12, "M", 16, 16, "M"):
            if isinstance(width, int):
                layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(True)]
                inputs = width
            else:
                layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(
            nn.Linear(16 * 2 * 2, 24), nn.ReLU(True), nn.Dropout(), nn.Linear(24, 5)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class Fire(nn.Module):
    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2),
            nn.ReLU(True),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(8, 5, 8),
            Fire(16, 6, 12),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Conv2d(24, 5, 1), nn.ReLU(True), nn.AdaptiveAvgPool2d(1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.classifier(self.features(x)), 1)


class DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 2 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * growth)
        self.conv2 = nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = torch.cat(features, 1)
        return self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.block = nn.ModuleList(DenseLayer(8 + 5 * i, 5) for i in range(3))
        self.norm5 = nn.BatchNorm2d(23)
        self.transition = nn.Sequential(nn.Conv2d(23, 11, 1, bias=False), nn.AvgPool2d(2, 2))
        self.classifier = nn.Linear(11, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.conv0(x)]
        for layer in self.block:
            features.append(layer(features))
        x = self.transition(F.relu(self.norm5(torch.cat(features, 1)), inplace=True))
        return self.classifier(F.adaptive_avg_pool2d(x, (1, 1)).squeeze(-1).squeeze(-1))


def shuffled(x: Tensor, groups: int) -> Tensor:
    n, c, h, w = x.size()
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


class ShuffleUnit(nn.Module):
    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        half = width if stride == 2 else width // 2
        self.stride = stride
        if stride == 2:
            self.branch1 = nn.Sequential(
                conv_norm(width, width, 3, 2, groups=width), conv_norm(width, width, 1, act=nn.ReLU())
            )
        self.branch2 = nn.Sequential(
            conv_norm(half, half, 1, act=nn.ReLU()),
            conv_norm(half, half, 3, stride, groups=half),
            conv_norm(half, half, 1, act=nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            one, two = x.chunk(2, dim=1)
            return shuffled(torch.cat((one, self.branch2(two)), 1), 2)
        return shuffled(torch.cat((self.branch1(x), self.branch2(x)), 1), 2)


class ShuffleNetV2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = conv_norm(3, 8, 3, 2, act=nn.ReLU(inplace=True))
        self.stage2 = nn.Sequential(ShuffleUnit(8, 2), ShuffleUnit(16, 1), ShuffleUnit(16, 1))
        self.conv5 = conv_norm(16, 20, 1, act=nn.ReLU(inplace=True))
        self.fc = nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.conv5(self.stage2(self.conv1(x))).mean([2, 3]))


class C2f(nn.Module):
    """Of YOLOv8: half of the channels go on, all parts are joined."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.c = outputs // 2
        self.cv1 = conv_norm(inputs, 2 * self.c, 1, act=nn.SiLU())
        self.cv2 = conv_norm(3 * self.c, outputs, 1, act=nn.SiLU())
        self.m = nn.ModuleList([conv_norm(self.c, self.c, 3, act=nn.SiLU())])

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.cv1(x).split((self.c, self.c), 1))
        y.extend(m(y[-1]) for m in self.m)
        return self.cv2(torch.cat(y, 1))


class Yolo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 8, 3, 2, act=nn.SiLU())
        self.p3, self.down, self.p4 = C2f(8, 12), conv_norm(12, 16, 3, 2, act=nn.SiLU()), C2f(16, 16)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.neck = C2f(28, 12)
        self.head = nn.Conv2d(12, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        p3 = self.p3(self.stem(x))
        p4 = self.p4(self.down(p3))
        p4 = torch.cat((p4[:, :8], self.pool(p4)[:, 8:]), 1)
        return self.head(self.neck(torch.cat((self.up(p4), p3), 1)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inc, self.down = self.twice(3, 8), self.twice(8, 16)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.transposed, self.pixels = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.PixelShuffle(2)
        self.conv, self.outc = self.twice(24, 8), nn.Conv2d(8, 1, 1)

    @staticmethod
    def twice(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            conv_norm(inputs, outputs, act=nn.LeakyReLU(0.1)),
            conv_norm(outputs, outputs, act=nn.ELU(inplace=True)),
        )

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down(F.max_pool2d(x1, 2))
        x = self.conv(torch.cat([x1, self.up(x2)], dim=1))
        wide = F.max_pool2d(self.pixels(self.transposed(x)), 4)
        return F.softmax(self.outc(x) * wide, dim=1)


class Segmentation(nn.Module):
    """A U-Net whose corners are aligned, on levels whose sizes do not divide; its side branch sees less."""

    def __init__(self) -> None:
        super().__init__()
        self.inc, self.down, self.deep = (
            conv_norm(3, 8, 3),
            conv_norm(8, 12, 3, 2),
            conv_norm(12, 16, 3, 2),
        )
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.side, self.conv, self.outc = conv_norm(3, 4, 3), conv_norm(40, 8, 3), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down(x1)
        x3 = self.deep(F.pad(x2, (0, 1)))
        whole = F.interpolate(self.up(x3), size=x1.shape[-2:], mode="bilinear", align_corners=True)
        small = F.interpolate(F.interpolate(x, scale_factor=0.5, mode="bilinear"), size=(7, 5))
        parts = [F.interpolate(part, size=x1.shape[-2:]) for part in (x2, self.side(small))]
        parts[0] = F.interpolate(F.max_pool2d(parts[0], 2), scale_factor=2, mode="nearest-exact")
        return self.outc(self.conv(torch.cat((x1, whole, *parts), 1)))


class SeNet(nn.Module):
    """Its squeeze-excite has linear layers, and its padding and activations are those of TensorFlow's ports."""

    def __init__(self) -> None:
        super().__init__()
        self.pad = nn.ZeroPad2d((0, 1, 0, 1))
        self.conv, self.act = nn.Conv2d(3, 8, 3, 2), nn.PReLU(8)
        self.same = nn.Conv2d(8, 8, 5, padding="same")
        self.fc = nn.Sequential(nn.Linear(8, 4), nn.PReLU(4), nn.Linear(4, 8), nn.Sigmoid())
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.conv(self.pad(x)))
        x = torch.clamp(self.same(F.pad(x, (1, 2))), -1, 2)
        b, c, _, _ = x.size()
        y = self.fc(F.adaptive_avg_pool2d(x, 1).view(b, c)).view(b, c, 1, 1)
        return torch.softmax(self.head((x * y.expand_as(x)).mean((2, 3))), -1)


PARTS: Mapping[str, Callable[[], nn.Module]] = {
    "shufflenet_v2": ShuffleNetV2,
    "yolov8": Yolo,
    "unet": UNet,
    "segmentation": Segmentation,
    "senet": SeNet,
}
"""Networks that take channels apart, change the size of planes, or have padding whose sides differ."""

NETWORKS: Mapping[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: ResNet(BasicBlock, 1),
    "resnet20": lambda: ResNet(PlainBlock, 1),
    "resnet50": lambda: ResNet(Bottleneck, 4),
    "resnext": lambda: ResNet(lambda *sizes: Bottleneck(*sizes, groups=4), 4),
    "mobilenet_v1": MobileNetV1,
    "mobilenet_v2": MobileNetV2,
    "mobilenet_v3": MobileNetV3,
    "efficientnet_b0": EfficientNet,
    "vgg11": Vgg,
    "squeezenet": SqueezeNet,
    "densenet121": DenseNet,
    **PARTS,
}
"""By the name of what each is a small version of."""


def trained(module: nn.Module, seed: int = 0) -> nn.Module:
    """``module`` with statistics and scales as after training, so that no two channels are alike."""
    rng = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            for tensor, low, high in (
                (part.weight, 0.5, 1.5),
                (part.bias, -0.5, 0.5),
                (part.running_mean, -0.5, 0.5),
                (part.running_var, 0.5, 2),
            ):
                tensor.data.uniform_(low, high, generator=rng)
    return module.eval()

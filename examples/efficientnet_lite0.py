"""EfficientNet-Lite0 of the package efficientnet-lite-pytorch, for the recipe beside this file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def make() -> nn.Module:
    """The module, with random weights."""
    from efficientnet_lite_pytorch import EfficientNet

    module: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    return module

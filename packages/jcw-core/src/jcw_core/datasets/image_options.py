"""What datasets of image files have in common in a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jcw_core.errors import RecipeError
from jcw_core.options import option

_COLOUR = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_GREY = (0.449,), (0.226,)
"""Mean and deviation of ImageNet's pixels, by channel."""


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Keys of ``[data]``. ``mean`` and ``std`` default to ImageNet's, in grey their averages."""

    path: Path = option(help="folder or .zip of image files")
    size: int = option(224, low=1, high=4096, help="height and width of the images, in pixels")
    resize: int | None = option(
        None, low=1, high=8192, help="short side before the centre crop; size by default"
    )
    channels: int = option(3, low=1, high=3, help="3 for colour, 1 for grey")
    mean: tuple[float, ...] | None = option(None, low=0, high=1, help="per channel, of pixels in [0, 1]")
    std: tuple[float, ...] | None = option(None, low=1e-6, high=1, help="per channel")

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise RecipeError(f"channels is {self.channels}; expected 1 or 3")
        if self.resize is not None and self.resize < self.size:
            raise RecipeError(f"resize is {self.resize}, less than size {self.size}")
        for key in ("mean", "std"):
            values = getattr(self, key)
            if values is not None and len(values) != self.channels:
                raise RecipeError(f"{key} has {len(values)} values for {self.channels} channels")

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation, per channel."""
        mean, std = _COLOUR if self.channels == 3 else _GREY
        return self.mean or mean, self.std or std


@dataclass(frozen=True, slots=True)
class TrainingImageOptions(ImageOptions):
    """Keys of ``[data]`` where images are trained on."""

    augment: bool = option(
        True, help="train on random parts and mirror images in changing colours, as is usual on ImageNet"
    )
    crop_area: float = option(0.08, above=0, high=1, help="of augment: least share of an image that is seen")
    jitter: float = option(
        0.4, low=0, high=1, help="of augment: most by which brightness, contrast and saturation change"
    )
    cache_mb: int = option(1024, low=0, high=2**20, help="decoded images kept in memory, in MiB")

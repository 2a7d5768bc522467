"""``RandomDecoder``: a part of an image file, drawn anew each time, perhaps mirrored and in other colours."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.decoding import coloured, opened, planes

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels."""

_ASPECTS = 3 / 4, 4 / 3
"""Least and greatest width over height of what is cut out (Szegedy et al. 2015)."""
_DRAWS = 10
"""Shapes that are drawn before one is taken that fits for certain."""


@dataclass(frozen=True, slots=True)
class RandomDecoder:
    """Cuts a random part out of an image and resizes it (Szegedy et al. 2015), mirrors half of them, changes colours.

    Args:
        size: height and width of the result.
        channels: 1 for grey, 3 for RGB.
        crop_area: least share of the image that is cut out.
        jitter: brightness, contrast and saturation change by a factor from ``1 - jitter`` to ``1 + jitter`` each.
    """

    size: int
    channels: int
    crop_area: float
    jitter: float

    def __call__(self, content: bytes, place: str, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Decode one file.

        Args:
            content: of the file.
            place: the file's name, for errors.
            rng: what is random comes from it.

        Returns:
            (channels, size, size).

        Raises:
            DataError: not an image, damaged, or above 64 Mi pixels.
        """
        with opened(content, place) as image:
            part = self._part(image, random_box(image.size, self.crop_area, rng))
        return planes(self._recoloured(self._mirrored(part, rng), rng))

    def _part(self, image: Image, box: Box) -> Image:
        from PIL.Image import Resampling

        width, height = image.size
        # A JPEG file is decoded at a half, a quarter or an eighth where that leaves the part large enough.
        image.draft(
            None,
            (_enlarged(width, self.size, box[2] - box[0]), _enlarged(height, self.size, box[3] - box[1])),
        )
        x, y = image.width / width, image.height / height
        scaled = (box[0] * x, box[1] * y, box[2] * x, box[3] * y)
        return coloured(image, self.channels).resize((self.size, self.size), Resampling.BILINEAR, scaled)

    @staticmethod
    def _mirrored(image: Image, rng: np.random.Generator) -> Image:
        from PIL.Image import Transpose

        return image.transpose(Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image

    def _recoloured(self, image: Image, rng: np.random.Generator) -> Image:
        from PIL import ImageEnhance

        if not self.jitter:
            return image
        kinds = [
            ImageEnhance.Brightness,
            ImageEnhance.Contrast,
            *([ImageEnhance.Color] * (self.channels == 3)),
        ]
        for index in rng.permutation(len(kinds)):
            image = kinds[index](image).enhance(rng.uniform(1 - self.jitter, 1 + self.jitter))
        return image


def random_box(size: tuple[int, int], least: float, rng: np.random.Generator) -> Box:
    """A random part of an image: its share of the area even from ``least`` to 1, its shape even in proportion.

    Where the shapes that are drawn do not fit, the middle of the image, as much of it as has a shape that is allowed.

    Args:
        size: width and height of the image.
        least: share of its area.
    """
    width, height = size
    for _ in range(_DRAWS):
        area = width * height * rng.uniform(least, 1)
        aspect = exp(rng.uniform(log(_ASPECTS[0]), log(_ASPECTS[1])))
        across, down = max(round(sqrt(area * aspect)), 1), max(round(sqrt(area / aspect)), 1)
        if across <= width and down <= height:
            left, top = int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1))
            return left, top, left + across, top + down
    across = min(width, max(int(height * _ASPECTS[1]), 1))
    down = min(height, max(int(width / _ASPECTS[0]), 1))
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down


def _enlarged(length: int, wanted: int, part: int) -> int:
    """How long a side has to be so that a part of it has ``wanted`` pixels."""
    return ceil(length * wanted / part)

"""``Decoder``: an image file to pixels, resized, cropped, grey or in colour."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

_PIXEL_LIMIT = 64 * 2**20
_FORMATS = ("JPEG", "PNG", "BMP", "PPM", "WEBP")


@dataclass(frozen=True, slots=True)
class Decoder:
    """Resizes (bilinear) until the image covers what is to be cut from its middle, and cuts it.

    Args:
        size: height of the result.
        resize: what becomes of ``size`` before the crop, at least ``size``: of a square, the short side.
        channels: 1 for grey, 3 for RGB.
        width: of the result, its height by default.
    """

    size: int
    resize: int
    channels: int
    width: int | None = None

    def __call__(self, content: bytes, place: str) -> NDArray[np.uint8]:
        """Decode one file.

        Args:
            content: of the file.
            place: the file's name, for errors.

        Returns:
            (channels, size, size).

        Raises:
            DataError: not an image, damaged, or above 64 Mi pixels.
        """
        with opened(content, place) as image:
            width, height = scaled = self._scaled(image.size)
            # A line of one pixel's height grows by much when its short side is resized.
            if width * height > _PIXEL_LIMIT:
                raise DataError(f"{place}: {_too_large(image, f', resized to {width} x {height},')}")
            cut = self._cut(coloured(image, self.channels), scaled)
        return planes(cut)

    @property
    def _width(self) -> int:
        return self.size if self.width is None else self.width

    def _scaled(self, size: tuple[int, int]) -> tuple[int, int]:
        # What both sides have to be at least; the side that has the longer way to go sets the scale.
        wanted = (round(self._width * self.resize / self.size), self.resize)
        goal, side = max(zip(wanted, size, strict=True), key=lambda pair: pair[0] / pair[1])
        width, height = (round(length * goal / side) for length in size)
        return width, height

    def _cut(self, image: Image, scaled: tuple[int, int]) -> Image:
        from PIL.Image import Resampling

        if image.size != scaled:
            image = image.resize(scaled, Resampling.BILINEAR)
        left, top = (scaled[0] - self._width) // 2, (scaled[1] - self.size) // 2
        return image.crop((left, top, left + self._width, top + self.size))


@contextmanager
def opened(content: bytes, place: str) -> Iterator[Image]:
    """An image file for a block of code in which it is decoded.

    Raises:
        DataError: not an image, damaged, or above 64 Mi pixels.
    """
    with _readable(content, place) as image:
        if image.width * image.height > _PIXEL_LIMIT:
            raise DataError(f"{place}: {_too_large(image)}")
        yield image


@contextmanager
def _readable(content: bytes, place: str) -> Iterator[Image]:
    """An image file of any size; what cannot be read within the block is a ``DataError``."""
    require_pillow()
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            yield image
    except UnidentifiedImageError:
        raise DataError(f"{place}: not a {', '.join(_FORMATS)} file that can be read") from None
    # What Pillow raises for a damaged file depends on its format and on where the damage is.
    except (OSError, EOFError, SyntaxError, ValueError, TypeError, IndexError, KeyError, struct.error,
            Image.DecompressionBombError) as error:  # fmt: skip
        raise DataError(f"{place}: cannot be decoded ({error}); fetch it again") from None


def _too_large(image: Image, then: str = "") -> str:
    return f"{image.width} x {image.height} pixels{then} is too large; expected at most {_PIXEL_LIMIT} pixels"


def coloured(image: Image, channels: int) -> Image:
    """The image in colour, or in grey where one channel is asked for."""
    return image.convert("L" if channels == 1 else "RGB")


def planes(image: Image) -> NDArray[np.uint8]:
    """Pixels as (channels, height, width)."""
    pixels = np.asarray(image, dtype=np.uint8).reshape(image.height, image.width, -1)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def require_pillow() -> None:
    """Raise ``DataError`` where images cannot be decoded."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise DataError("decoding images needs Pillow; pip install 'jcw-core[images]'") from None


def plane_of(content: bytes, place: str) -> tuple[int, int, int]:
    """What the head of an image file says: (channels, height, width), 1 channel for grey and 3 for all else.

    Raises:
        DataError: not an image, or damaged.
    """
    with _readable(content, place) as image:
        return 1 if image.mode in ("1", "L", "LA", "I;16") else 3, image.height, image.width

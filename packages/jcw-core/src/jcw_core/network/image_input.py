"""``ImageInput``: how an image file becomes what a model reads, as it is kept with the model."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from jcw_core.errors import FormatError

PIXELS = 255.0
"""Value of a white pixel in a file; a mean and a standard deviation are of pixels divided by it."""


@dataclass(frozen=True, slots=True)
class ImageInput:
    """What stands between an image file and a model: resize, cut the middle, then (pixel / 255 - mean) / std.

    Args:
        mean, std: per channel.
        resize: height after resizing, of which the middle is cut as high as the model's input; for a square, the short
            side.
        classes: names, by output.
        name: of the input, in the file that the network came from.

    Raises:
        FormatError: a value that cannot be meant.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: int
    classes: tuple[str, ...]
    name: str = "input"

    def __post_init__(self) -> None:
        numbers = [*self.mean, *self.std]
        if len(self.mean) != len(self.std) or not self.mean or not all(map(_is_number, numbers)):
            raise FormatError(f"mean is {self.mean}, std {self.std}: expected a number for each channel")
        if not all(value > 0 for value in self.std) or self.resize < 1:
            raise FormatError(f"std is {self.std}, resize {self.resize}: expected values above 0")

    def to_json(self) -> str:
        """As text for the metadata of a file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ImageInput:
        """Read what ``to_json`` wrote. Raises ``FormatError`` for anything else."""
        try:
            found: dict[str, Any] = json.loads(text)
            resize = found["resize"]
            if not isinstance(resize, int):
                raise FormatError(f"resize is {resize!r:.40}, expected a number")
            lists = [_listed(found[key]) for key in ("mean", "std", "classes")]
            return cls(lists[0], lists[1], resize, tuple(map(str, lists[2])), str(found["name"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"what it says of its images cannot be read ({error!r:.100})") from None

    @property
    def takes_pixels(self) -> bool:
        """True where the model normalises itself, so that pixels go in as they are."""
        return set(self.mean) == {0.0} and all(math.isclose(value * PIXELS, 1) for value in self.std)


def _listed(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is no list")
    return tuple(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

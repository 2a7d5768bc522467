"""Arguments of ATen's operators as a network has them: pairs, padding, and what asks for more than it can say."""

from __future__ import annotations

from typing import Any

from jcw_core.formats.torch_import.exported import Operator
from jcw_core.formats.torch_import.translation import Obstacle

Pair = tuple[int, int]
"""(height, width)."""
Sides = tuple[int, int, int, int]
"""(top, left, bottom, right)."""


def pair(value: Any) -> Pair:
    """A number for both axes, or one for each. Raises ``Obstacle``."""
    values = [value, value] if isinstance(value, int) else list(value)
    if len(values) == 1:
        values *= 2
    if len(values) != 2 or not all(isinstance(v, int) for v in values):
        raise Obstacle(f"{value!r:.40} is no pair of whole numbers; only two axes have a place")
    return values[0], values[1]


def only(operator: Operator, **expected: Any) -> None:
    """Refuse an argument that asks for more than a network can say."""
    for key, value in expected.items():
        found = operator.arguments.get(key, value)
        if (list(found) if isinstance(found, (list, tuple)) else found) != value:
            raise Obstacle(f"{operator.op} with {key} = {found!r:.40} has no place in a network")


def sides(padding: Any) -> Sides:
    """(top, left, bottom, right)."""
    if isinstance(padding, str):
        return 0, 0, 0, 0  # "valid"
    return (*pair(padding), *pair(padding))


def same_padding(kernel: Any) -> Sides:
    """What torch calls same: at the ends of an axis half each, the larger half at the second."""
    height, width = pair(kernel)
    return (height - 1) // 2, (width - 1) // 2, height // 2, width // 2


def sum_of(outer: tuple[int, ...], inner: Sides) -> Sides:
    """Padding around padding."""
    top, left, bottom, right = (one + other for one, other in zip(outer, inner, strict=True))
    return top, left, bottom, right

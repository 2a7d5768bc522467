"""What the values of a record may be: files may hold NaN, infinity and anything else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from jcw_core.errors import FormatError


def is_finite(value: Any) -> bool:
    """True for a number that a float holds; files may hold NaN, infinity and integers of any length."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def is_amount(value: Any) -> bool:
    """True for a finite number that is not negative, and for None."""
    return value is None or (is_finite(value) and value >= 0)


def is_count(value: Any) -> bool:
    """True for a whole number that is not negative."""
    return isinstance(value, int) and is_amount(value)


def row_of(row: Any, keys: Mapping[str, Callable[[Any], bool]], where: str) -> dict[str, Any]:
    """The values of ``keys`` in what a file says of one model.

    Args:
        row: as the file has it.
        keys: what each value must be; None is no value.
        where: file and model, for errors.

    Raises:
        FormatError: the row is no object, or a value is missing or something else.
    """
    if not isinstance(row, dict):
        raise FormatError(f"{where} was not exported, measured or evaluated: found {row!r:.60}; run again")
    for key, fits in keys.items():
        if row.get(key) is None or not fits(row[key]):
            raise FormatError(f"{where} has {key} {row.get(key)!r:.40}, expected numbers; run again")
    return {key: row[key] for key in keys}

"""Files and documents with something changed at random, and what reading them may come to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jcw_core.errors import DataError
from jcw_core.protocols import Dataset

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([10**400, -(10**400), 1 << 60, "[/x]", "1", [3]])
    | st.floats()
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
"""What a file of JSON may hold, NaN and integers that no array holds included."""


def _places(where: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    """A key of an object or list, and those within its value."""
    yield where, key
    value = where[key]
    for inner in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from _places(value, inner)


def misplace(data: st.DataObject, document: dict[str, Any]) -> None:
    """Put any value in the place of any other, or none."""
    key = data.draw(st.sampled_from(sorted(document)))
    where, key = data.draw(st.sampled_from(list(_places(document, key))))
    if data.draw(st.integers(0, 4)):
        where[key] = data.draw(json_values)
    else:
        del where[key]


def damaged(data: st.DataObject, content: bytes) -> bytes:
    """Cut, flip or insert bytes, preferably near the ends, where headers and directories stand."""
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        edge = data.draw(st.integers(0, min(200, len(changed))))
        position = data.draw(st.sampled_from([edge, len(changed) - edge]) | st.integers(0, len(changed)))
        change = data.draw(st.sampled_from(["flip", "cut", "drop", "insert"]))
        if change == "cut":
            del changed[position:]
        elif change == "drop":
            del changed[position : position + data.draw(st.integers(1, 8))]
        elif change == "insert":
            changed[position:position] = data.draw(st.binary(min_size=1, max_size=8))
        elif position < len(changed):
            changed[position] = data.draw(st.integers(0, 255))
    return bytes(changed)


def fuzz(path: Path, content: bytes, data: st.DataObject, read: Callable[[], Dataset]) -> None:
    """Whatever the damage: images of the right shape, or a DataError that names the file or its folder."""
    path.write_bytes(damaged(data, content))
    try:
        found = read()
        images = found.images(np.arange(len(found)))
    except DataError as error:
        assert str(path) in str(error) or str(path.parent) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert images.shape == (len(found), *found.image_shape)
        assert found.labels.shape == (len(found),)
        assert (found.labels < len(found.classes)).all()

"""Files with bytes changed at random, and what reading them may come to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from jcw_core.errors import DataError
from jcw_core.protocols import Dataset


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

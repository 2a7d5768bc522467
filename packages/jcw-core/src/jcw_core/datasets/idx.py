"""``read_idx``: arrays in the idx format of MNIST: two zero bytes, type, axes, big-endian sizes, values."""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DataError

_UNSIGNED_BYTE = 8
_LIMIT = 512 * 2**20
"""Bytes that one file may unpack to."""


def read_idx(folder: Path, name: str, item: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read ``name`` or ``name.gz``.

    Args:
        folder: where the file lies.
        name: without ``.gz``.
        item: expected shape of one item; ``()`` for labels.

    Returns:
        (n, *item), with n at least 1.

    Raises:
        DataError: the file is missing, damaged, cut short, too long or of another shape.
    """
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
    if path is None:
        raise DataError(f"{folder}: holds neither {name} nor {name}.gz")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _parse(cast(BinaryIO, file), path, item)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); fetch it again") from None


def _parse(file: BinaryIO, path: Path, item: tuple[int, ...]) -> NDArray[np.uint8]:
    axes = 1 + len(item)
    header = file.read(4 + 4 * axes)
    if header[:4] != bytes((0, 0, _UNSIGNED_BYTE, axes)):
        raise DataError(
            f"{path}: not an idx file of bytes with {axes} axes; it begins with {header[:4].hex()!r}"
        )
    if len(header) < 4 + 4 * axes:
        raise DataError(f"{path}: cut short within its header; fetch it again")
    shape = struct.unpack(f">{axes}I", header[4:])
    if shape[1:] != item or not 0 < prod(shape) <= _LIMIT:
        raise DataError(
            f"{path}: its header says shape {shape}, expected (images{''.join(f', {s}' for s in item)})"
        )
    values = _read(file, prod(shape) + 1)
    if len(values) != prod(shape):
        found = f"{len(values)} bytes" if len(values) < prod(shape) else "more"
        raise DataError(
            f"{path}: its header promises {prod(shape)} bytes of values, found {found}; fetch it again"
        )
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _read(file: BinaryIO, size: int) -> bytearray:
    """Up to ``size`` bytes, by pieces: memory goes to what is there, not to what a header promises."""
    values = bytearray()
    while len(values) < size and (piece := file.read(min(2**20, size - len(values)))):
        values += piece
    return values

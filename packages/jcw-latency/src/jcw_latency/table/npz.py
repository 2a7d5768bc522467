"""Writes ``.npz`` files, and reads them without pickles and with every size checked before memory is taken."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from math import isfinite, prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_core.files import atomic, read_member
from jcw_latency.table.text import unprintable

_LIMIT = 256 * 2**20
"""Bytes of the largest file, and of all its arrays; a table of a large network has a few hundred kilobytes."""
_METADATA_LIMIT = 8 * 2**20
"""Bytes of the longest metadata, which take some twenty times as much once they are read."""
_SMALL = 16 * 2**20
_RATIO = 64
"""Arrays may take as much memory as ``_SMALL`` and so many times the file's bytes: layers that cost nothing are zeros."""
_LARGEST_HEADER = 1024
"""Bytes of an array's header, some hundred of which are ever used."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PREFIX = re.compile(rb"\x93NUMPY\x01\x00(..)", re.DOTALL)
_HEADER = re.compile(
    r"\{'descr': '([^'\\]{1,16})', 'fortran_order': (True|False), 'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), ?\}[ ]*\n"
)
"""As numpy writes it; its own reader takes any Python literal, and fails in as many ways."""

METADATA = "metadata"


def write(path: Path, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a JSON document atomically."""
    text = json.dumps(metadata, allow_nan=False).encode()
    members = {METADATA: np.frombuffer(text, np.uint8), **arrays}
    with atomic(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in members.items():
            content = BytesIO()
            npy.write_array(content, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
            # A fixed date, so that equal tables are equal files.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_DEFLATED)


class DamagedFileError(FormatError):
    """A file that cannot be read; the message names it."""


@dataclass(frozen=True, slots=True)
class Header:
    """What an array says of itself: its type as numpy abbreviates it, its order and its shape."""

    dtype: str
    fortran: bool
    shape: tuple[int, ...]


class Reader:
    """An ``.npz`` file. A context manager.

    Memory is bounded by what the file holds: sizes are checked as they are claimed, and nothing is inflated
    beyond them.

    Args:
        path: the file.
        kind: the ``format`` that its metadata must name.
        remedy: what the user can do about a damaged file.

    Raises:
        DamagedFileError: from every method, for a file that is missing, damaged or of another kind.
    """

    def __init__(self, path: Path, kind: str, remedy: str) -> None:
        self.path = path
        self._remedy = remedy
        try:
            if path.stat().st_size > _LIMIT:
                raise self.error(f"larger than {_LIMIT >> 20} MiB")
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise DamagedFileError(f"{path}: no such file", see="") from None
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, struct.error) as error:
            raise self.error(f"not an npz file ({error})") from None
        try:
            self._check_sizes(path.stat().st_size)
            self.metadata = self._metadata(kind)
        except DamagedFileError:
            self._zip.close()
            raise

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def error(self, message: str) -> DamagedFileError:
        """An error that names the file and says what to do."""
        return DamagedFileError(f"{self.path}: {message}; {self._remedy}")

    def array(self, name: str, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Read one array, which must have this shape and dtype."""
        size = prod(shape) * np.dtype(dtype).itemsize
        found, content = self._member(name, size)
        expected = Header(np.dtype(dtype).str, len(shape) > 1 and found.fortran, shape)
        if found != expected:
            raise self.error(f"array {name!r} is {found.dtype} {found.shape}, expected {dtype} {shape}")
        if found.fortran and len(shape) > 1:
            raise self.error(f"array {name!r} is in Fortran order")
        if len(content) != size:
            raise self.error(f"array {name!r} is cut short")
        return np.frombuffer(content, dtype=dtype).reshape(shape)

    def _check_sizes(self, file_size: int) -> None:
        """Refuse what would inflate to more than any table has, or than so small a file should."""
        claimed = sum(info.file_size for info in self._zip.infolist())
        if claimed > min(_LIMIT, _SMALL + _RATIO * file_size):
            raise self.error(f"its arrays claim {claimed} bytes, too many for a file of {file_size}")

    def _member(self, name: str, size: int) -> tuple[Header, bytes]:
        """The header of an array, and its content of at most ``size`` bytes."""
        try:
            if self._zip.getinfo(f"{name}.npy").compress_type not in _METHODS:
                raise zipfile.BadZipFile("packed in another way than tables are")
            content = read_member(self._zip, f"{name}.npy", size + _LARGEST_HEADER)
        except KeyError:
            raise self.error(f"array {name!r} is missing") from None
        except zipfile.BadZipFile as error:
            raise self.error(f"array {name!r} is damaged ({error})") from None
        prefix = _PREFIX.match(content)
        end = 10 + int.from_bytes(prefix[1], "little") if prefix else 0
        header = _HEADER.fullmatch(content[10:end].decode("latin-1"))
        if header is None or end > _LARGEST_HEADER:
            raise self.error(f"array {name!r} is damaged (its header is none that numpy writes)")
        shape = tuple(int(axis) for axis in header[3].split(",") if axis.strip())
        return Header(header[1], header[2] == "True", shape), content[end:]

    def _metadata(self, kind: str) -> dict[str, Any]:
        header, content = self._member(METADATA, _METADATA_LIMIT)
        try:
            document = json.loads(content, parse_constant=_number, parse_float=_number)
        except (ValueError, RecursionError):
            document = None
        if len(header.shape) != 1 or header.dtype != "|u1" or not isinstance(document, dict):
            raise self.error("its metadata is not JSON")
        if (problem := unprintable(document)) is not None:
            raise self.error(f"its metadata is damaged ({problem})")
        if document.get("format") != kind:
            raise self.error(f"format is {document.get('format')!r:.60}, expected {kind!r}")
        return document


def _number(text: str) -> float:
    """A number of JSON. Python reads NaN and infinity, which are none and could not be written again."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value

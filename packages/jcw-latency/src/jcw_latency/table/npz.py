"""Writes ``.npz`` files, and reads them without pickles and with every size checked before memory is taken."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from jcw_core.errors import FormatError
from jcw_core.files import atomic

_LIMIT = 256 * 2**20
"""No member is larger than this; a table of a large network has a few hundred kilobytes."""

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


class Reader:
    """An ``.npz`` file. A context manager.

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
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise DamagedFileError(f"{path}: no such file") from None
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
            raise self.error(f"not an npz file ({error})") from None
        try:
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
        content, header = self._member(name)
        if header != (shape, np.dtype(dtype)):
            raise self.error(f"array {name!r} is {header[1]} {header[0]}, expected {dtype} {shape}")
        values = np.frombuffer(content, dtype=dtype)
        if values.size != int(np.prod(shape, dtype=object)):
            raise self.error(f"array {name!r} is cut short")
        return values.reshape(shape)

    def _member(self, name: str) -> tuple[bytes, tuple[tuple[int, ...], np.dtype[Any]]]:
        try:
            info = self._zip.getinfo(f"{name}.npy")
            if info.file_size > _LIMIT:
                raise self.error(f"array {name!r} claims {info.file_size} bytes")
            stream = BytesIO(self._zip.read(info))
            if npy.read_magic(stream) != (1, 0):
                raise ValueError("unknown npy version")
            shape, fortran, dtype = npy.read_array_header_1_0(stream, max_header_size=10_000)
        except KeyError:
            raise self.error(f"array {name!r} is missing") from None
        except (OSError, ValueError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
            raise self.error(f"array {name!r} is damaged ({error})") from None
        if fortran and len(shape) > 1:
            raise self.error(f"array {name!r} is in Fortran order")
        return stream.read(), (shape, dtype)

    def _metadata(self, kind: str) -> dict[str, Any]:
        content, (shape, dtype) = self._member(METADATA)
        try:
            document = json.loads(content)
            # Python reads NaN and infinity, which are no JSON and could not be written again.
            json.dumps(document, allow_nan=False)
        except (ValueError, RecursionError):
            document = None
        if len(shape) != 1 or dtype != np.uint8 or not isinstance(document, dict):
            raise self.error("its metadata is not JSON")
        if document.get("format") != kind:
            raise self.error(f"format is {document.get('format')!r}, expected {kind!r}")
        return document

"""Writing files whole or not at all, reading and writing JSON, and digests of files."""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jcw_core.errors import FormatError

_WHOLE = 256 * 2**20
"""Files up to this size are hashed by content, larger ones by name, size and time."""
_TEMPORARY = ".jcw-part"
"""End of the names of files that are being written: no other program makes files of this name."""
_PIECE = 2**16
"""Bytes of an archive's member that are inflated at a time."""
_DAMAGE: tuple[type[Exception], ...] = (
    OSError, EOFError, ValueError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile
)  # fmt: skip
"""What reading a member raises depends on how it was packed; RuntimeError: encrypted, or in an unknown way."""
with suppress(ImportError):  # a Python without it, where zipfile does not read such members either
    from lzma import LZMAError

    _DAMAGE += (LZMAError,)
_OLD = 60.0
"""Seconds without a change after which a temporary file that nobody has locked was abandoned."""


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it when the block ends without an error.

    What writers of the same file left behind when they were killed, a minute ago or earlier, is removed.

    Raises:
        OSError: ``path``, which it names, cannot be written.
    """
    with _naming(path), _temporary(path) as temporary:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that becomes it when the block ends without an error.

    Raises:
        FileExistsError: ``path`` is there already.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "is there already", str(path))
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_TEMPORARY, dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_writable(path: Path) -> None:
    """Raise the ``OSError`` of ``atomic`` now, before the work whose result would be lost."""
    with _naming(path), _temporary(path):
        pass


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``, locked; it is removed at the end if it is still there."""
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "is not a regular file; give another name", str(path))
    with suppress(FileExistsError):  # a file, in which none can be made: the next error is clearer
        path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_TEMPORARY, dir=path.parent)
    temporary = Path(name)
    with suppress(OSError):  # a file system without locks, where nothing is found abandoned either
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Have system errors name ``path`` where they name no file, a folder of it or a file beside it."""
    try:
        yield
    except OSError as error:
        place, found = (Path(os.path.abspath(p)) for p in (path, str(error.filename or path)))
        if error.errno is None or not (found in place.parents or found.parent == place.parent):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _remove_abandoned(path: Path) -> None:
    """Remove old temporary files of ``path`` whose lock nobody holds: a lock ends with its process.

    Old ones only, because a library that writes by renaming leaves its caller without the lock.
    """
    for found in path.parent.glob(f".{glob.escape(path.name)}.*{_TEMPORARY}"):
        with suppress(OSError), found.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(file.fileno()).st_mtime > _OLD:
                found.unlink()


def remove_abandoned(folder: Path) -> None:
    """Remove every temporary file below ``folder`` that no process is writing.

    For folders in which nobody but the caller writes: there no library has renamed what is still open.
    """
    for found in folder.rglob(f".*{_TEMPORARY}"):
        with suppress(OSError), found.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, document: Any) -> None:
    """Write ``document`` atomically; NaN and infinity are refused."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path, *, kind: str | None = None, objects: Sequence[str] = ()) -> Any:
    """Read a JSON file.

    Args:
        kind: the value its ``format`` key must have.
        objects: keys whose values must be objects.

    Raises:
        FormatError: the file is missing, is not JSON, is of another kind, or lacks an object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file", see="") from None
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not a JSON file ({error}); make it again") from None
    found = document.get("format") if isinstance(document, dict) else None
    if kind is not None and found != kind:
        raise FormatError(f"{path}: format is {found!r}, expected {kind!r}")
    for key in objects:
        if not isinstance(document.get(key), dict):
            raise FormatError(
                f"{path}: {key} is {document.get(key)!r:.60}, expected an object; make it again"
            )
    return document


def read_member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Read one member of a .zip, by pieces: memory goes to what is there, not to what is claimed or packed.

    Args:
        archive: open.
        name: of the member.
        most: bytes that it may have.

    Raises:
        KeyError: there is no such member.
        BadZipFile: it is damaged, too long, encrypted or packed in a way that this Python does not know.
    """
    info = archive.getinfo(name)
    if info.file_size > most:
        raise zipfile.BadZipFile(f"claims {info.file_size} bytes, expected at most {most}")
    content = bytearray()
    try:
        with archive.open(info) as stream:
            while piece := stream.read(_PIECE):
                content += piece
    except _DAMAGE as error:
        raise zipfile.BadZipFile(str(error) or "it is damaged") from None
    return bytes(content)


def digest(path: Path) -> str:
    """Fingerprint of a file or folder; ``"absent"`` when there is none."""
    if path.is_dir():
        entries = sorted(p for p in path.rglob("*") if p.is_file())
        return _digest_text(json.dumps([[str(p.relative_to(path)), *_stamp(p)] for p in entries]))
    if not path.is_file():
        return "absent"
    if path.stat().st_size > _WHOLE:
        return _digest_text(json.dumps([path.name, *_stamp(path)]))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _digest_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def safetensors_metadata(content: bytes) -> dict[str, Any]:
    """The metadata in the header of a safetensors file whose tensors the library has read.

    The library tells it only of files that it opens itself, and of those with a name in UTF-8 only.
    """
    size = int.from_bytes(content[:8], "little")
    found: dict[str, Any] = json.loads(content[8 : 8 + size]).get("__metadata__") or {}
    return found

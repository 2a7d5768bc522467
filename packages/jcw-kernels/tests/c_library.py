"""libjcw called through jcw.h, as a program in C would."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from device_program import built
from numpy.typing import NDArray

OK, BAD_ARGUMENT, BAD_FILE, NO_DEVICE = range(4)
"""The first statuses of jcw.h."""


class Shape(ctypes.Structure):
    _fields_ = [("channels", c_int32), ("height", c_int32), ("width", c_int32)]


class Step(ctypes.Structure):
    _fields_ = [
        ("layer", c_char_p),
        ("kernel", c_char_p),
        ("density", c_double),
        ("macs", c_double),
        ("seconds", c_double),
    ]


FLOATS = POINTER(c_float)
ARGUMENTS: dict[str, list[Any]] = {
    "jcw_load": [c_char_p, c_size_t, c_int, POINTER(c_void_p)],
    "jcw_load_file": [c_char_p, c_int, POINTER(c_void_p)],
    "jcw_shapes": [c_void_p, POINTER(Shape), POINTER(Shape)],
    "jcw_run": [c_void_p, FLOATS, c_size_t, FLOATS, c_size_t],
    "jcw_profile": [c_void_p, FLOATS, c_size_t, c_int, POINTER(Step), c_size_t, POINTER(c_size_t)],
    "jcw_error": [],
    "jcw_free": [c_void_p],
    "jcw_version": [],
}


@cache
def library() -> ctypes.CDLL:
    """The shared library: the one named by JCW_C_LIBRARY, or else built here."""
    found = ctypes.CDLL(os.environ.get("JCW_C_LIBRARY") or str(Path(built()).with_name("libjcw.so")))
    for name, arguments in ARGUMENTS.items():
        getattr(found, name).argtypes = arguments
    found.jcw_error.restype = found.jcw_version.restype = c_char_p
    found.jcw_free.restype = None
    return found


def error() -> str:
    return library().jcw_error().decode("ascii")


def floats(array: NDArray[np.float32]) -> Any:
    return array.ctypes.data_as(FLOATS)


class CModel:
    """A model behind jcw.h. Raises RuntimeError with the status and the message where a call fails."""

    def __init__(self, file: bytes, threads: int = 1) -> None:
        self.handle = c_void_p()
        self._check(library().jcw_load(file, len(file), threads, byref(self.handle)))

    def __del__(self) -> None:
        library().jcw_free(self.handle)

    def _check(self, status: int) -> None:
        if status != OK:
            assert error()
            raise RuntimeError(status, error())

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        input, output = Shape(), Shape()
        self._check(library().jcw_shapes(self.handle, byref(input), byref(output)))
        return (input.channels, input.height, input.width), (output.channels, output.height, output.width)

    def run(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        input, output = self.shapes()
        outputs = np.full((images.size // int(np.prod(input)), int(np.prod(output))), np.nan, np.float32)
        self._check(
            library().jcw_run(self.handle, floats(images), images.size, floats(outputs), outputs.size)
        )
        return outputs

    def profile(self, image: NDArray[np.float32], rounds: int, capacity: int) -> tuple[list[Step], int]:
        """The steps that fit, and how many there are."""
        steps, count = (Step * capacity)(), c_size_t()
        library_call = library().jcw_profile
        self._check(
            library_call(self.handle, floats(image), image.size, rounds, steps, capacity, byref(count))
        )
        return list(steps), count.value

"""``read_network``: a network from a JSON or an ONNX file, as recipes and commands name it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jcw_core.errors import NetworkError
from jcw_core.network.graph import Network
from jcw_core.network.model import Model

SUFFIXES = (".json", ".onnx")
"""Ends of the names of files that hold a network."""


def read_network(path: Path, shape: Sequence[int] | None = None, outputs: Sequence[str] = ()) -> Network:
    """The network that a file holds: ONNX where its name ends in ``.onnx``, else JSON.

    Args:
        path: of the file.
        shape: (images, channels, height, width), for an ONNX file that leaves them open.
        outputs: values of an ONNX file at which the network ends.

    Raises:
        JcwError: an ONNX file, and the package onnx is not installed.
        NetworkError, FormatError: the file is missing, damaged or holds no network, or ``outputs`` are given for one of JSON.
    """
    if path.suffix.lower() != ".onnx":
        if outputs:
            raise NetworkError(
                f"{path}: outputs name values of an ONNX file, which this is not; leave them out"
            )
        return Network.read(path)
    from jcw_core.formats.onnx_reader.network import read_onnx

    return read_onnx(path, shape, outputs)


def read_model(path: Path, shape: Sequence[int] | None = None, outputs: Sequence[str] = ()) -> Model:
    """The network of an ONNX file with its weights; see ``jcw_core.formats.onnx_reader.read_onnx_model``."""
    from jcw_core.formats.onnx_reader.network import read_onnx_model

    return read_onnx_model(path, shape, outputs)

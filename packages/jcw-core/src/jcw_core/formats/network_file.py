"""``read_network``: a network from a JSON or an ONNX file, as recipes and commands name it."""

from __future__ import annotations

from pathlib import Path

from jcw_core.network.graph import Network

SUFFIXES = (".json", ".onnx")
"""Ends of the names of files that hold a network."""


def read_network(path: Path) -> Network:
    """The network that a file holds: ONNX where its name ends in ``.onnx``, else JSON.

    Raises:
        JcwError: an ONNX file, and the package onnx is not installed.
        NetworkError, FormatError: the file is missing, damaged or holds no network.
    """
    if path.suffix.lower() != ".onnx":
        return Network.read(path)
    from jcw_core.formats.onnx_reader.network import read_onnx

    return read_onnx(path)

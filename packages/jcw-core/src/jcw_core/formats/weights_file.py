"""Weights of a network or a torch module, from a file of torch or of safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError, JcwError, within_memory
from jcw_core.network.graph import Network
from jcw_core.network.model import Model

Arrays = Mapping[str, NDArray[Any]]

SUFFIXES = (".safetensors", ".pth", ".pt")
"""Ends of the names of files that hold weights."""
_COUNTERS = ".num_batches_tracked"
_SHOWN = 3


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name; half floats as float32. What torch counts beside its statistics is left out.

    Raises:
        JcwError: the package that reads such files is not installed, or memory does not suffice.
        FormatError: the file is missing, damaged, holds anything but arrays, or NaN or infinity; it is named.
    """
    with within_memory(str(path)):
        if path.suffix.lower() == ".safetensors":
            arrays = _safetensors(path)
        elif path.suffix.lower() in SUFFIXES:
            arrays = _torch(path)
        else:
            raise FormatError(
                f"{path}: no file of weights; expected a name that ends in {', '.join(SUFFIXES)}"
            )
        kept = {name: _plain(array) for name, array in arrays.items() if not name.endswith(_COUNTERS)}
        for name, array in kept.items():
            if not np.isfinite(array).all():
                raise FormatError(f"{path}: {name} holds NaN or infinity; train again")
    return kept


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _safetensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise JcwError(
            "safetensors files need the package safetensors: pip install 'jcw-core[safetensors]'"
        ) from None
    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file", see="") from None
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise FormatError(f"{path}: not a safetensors file of plain arrays ({error})") from None


def _torch(path: Path) -> dict[str, NDArray[Any]]:
    try:
        from jcw_core.formats.torch_import.state_dict import read_state_dict
    except ImportError:
        raise JcwError(f"{path}: such files need torch: pip install 'jcw-core[supernet]'") from None
    return read_state_dict(path)


def check_fit(path: Path, arrays: Arrays, expected: Mapping[str, tuple[int, ...]], owner: str) -> None:
    """Hold the arrays of a file to those that a network or module has.

    Raises:
        FormatError: one is missing, superfluous or of another shape; the file and the first few are named.
    """
    wrong = [f"lacks {name!r}" for name in expected if name not in arrays]
    wrong += [f"has no place for {name!r}" for name in arrays if name not in expected]
    wrong += [
        f"{name!r} is {arrays[name].shape}, expected {shape}"
        for name, shape in expected.items()
        if name in arrays and arrays[name].shape != shape
    ]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise FormatError(f"{path}: does not fit {owner}: {'; '.join(wrong[:_SHOWN])}{more}")


def with_weights(network: Network, path: Path, *, new_head: bool = False) -> Model:
    """A network with the weights of a file, by state-dict name.

    Args:
        network: at full width.
        path: of the file.
        new_head: the linear layer that makes the output is not taken from it but begins with zeros, as where a network
            that was trained elsewhere is to learn other classes (Kolesnikov et al. 2020).

    Raises:
        JcwError, FormatError: as ``read_weights`` and ``check_fit``; no linear layer makes the output.
    """
    arrays = read_weights(path)
    if new_head:
        head = network[network.output.inputs[0]]
        if head.op != "linear":
            raise FormatError(
                f"{network.name} ends in {head.name!r} ({head.op}), and only a linear layer is a head"
            )
        own = {n: s for n, s in network.parameter_shapes.items() if n.rpartition(".")[0] == head.name}
        arrays |= {name: np.zeros(shape, np.float32) for name, shape in own.items()}
    check_fit(path, arrays, {**network.parameter_shapes, **network.buffer_shapes}, network.name)
    return Model(network, {name: array.astype(np.float32) for name, array in arrays.items()})

"""Weights from files that ``torch.save`` wrote; nothing in them is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from jcw_core.errors import FormatError, JcwError, within_memory

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
"""Keys under which people keep a state dict beside an optimiser's."""
_PARALLEL = "module."
"""What torch's wrappers for several devices put in front of each name."""


def read_state_dict(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a state dict by name.

    Raises:
        FormatError: the file is missing, damaged, or holds anything but tensors by name; it is named.
    """
    try:
        with within_memory(str(path)):
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except JcwError:
        raise
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file", see="") from None
    except Exception as error:  # of many kinds, by how the file is damaged
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise FormatError(
            f"{path}: not a file of weights alone ({reason:.120}); save the module's state_dict()"
        ) from None
    for key in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict) or not found or not all(map(_is_entry, found.items())):
        raise FormatError(f"{path}: holds no state dict; save the module's state_dict()")
    parallel = all(name.startswith(_PARALLEL) for name in found)
    return {
        name.removeprefix(_PARALLEL) if parallel else name: _array(tensor) for name, tensor in found.items()
    }


def _is_entry(entry: tuple[Any, Any]) -> bool:
    return isinstance(entry[0], str) and isinstance(entry[1], Tensor)


def _array(tensor: Tensor) -> NDArray[Any]:
    dense = tensor.detach()
    array: NDArray[Any] = (dense.float() if dense.is_floating_point() else dense).numpy().copy()
    return array

"""Checkpoints: one safetensors file whose header carries JSON, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as deserialize
from safetensors.torch import save as serialize
from torch import Tensor

from jcw_core.errors import FormatError, within_memory
from jcw_core.files import atomic, safetensors_metadata

_KEY = "jcw"


def save(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors and a JSON note; a file that was there is replaced in one step."""
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with atomic(path) as temporary:
        # Not save_file, whose errors do not tell a full disk from bad tensors.
        temporary.write_bytes(serialize(plain, metadata={_KEY: json.dumps(note)}))


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what ``save`` wrote.

    Raises:
        FormatError: the file is missing, damaged, or not a checkpoint.
        JcwError: memory does not suffice.
    """
    try:
        with within_memory(str(path)):
            content = path.read_bytes()
            tensors, note = deserialize(content), json.loads(safetensors_metadata(content)[_KEY])
        if not isinstance(note, dict):
            raise TypeError(f"its note is {note!r:.60}")
        return tensors, note
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file", see="") from None
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path}: not a checkpoint ({error}); delete it and run again") from None


def load_into(state: Mapping[str, Tensor], found: Mapping[str, Tensor], path: Path) -> None:
    """Copy the tensors of a file into those of ``state``.

    Raises:
        FormatError: a tensor is missing, superfluous or of another shape.
    """
    if state.keys() != found.keys():
        name = min(state.keys() ^ found.keys())
        raise FormatError(f"{path}: tensor {name!r} does not match; the file belongs to another network")
    with torch.no_grad():
        for name, tensor in state.items():
            if tensor.shape != found[name].shape:
                raise FormatError(
                    f"{path}: {name} is {tuple(found[name].shape)}, expected {tuple(tensor.shape)}; "
                    "the file belongs to another network"
                )
            tensor.copy_(found[name])

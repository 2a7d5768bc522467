"""Import what needs torch, or say what to install."""

from __future__ import annotations

import importlib
from typing import Any

from jcw_core.errors import PluginError


def implementation(module: str) -> Any:
    """Import a module that needs torch.

    Raises:
        PluginError: torch or safetensors is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "safetensors"):
            raise
        raise PluginError(
            f"{error.name} is not installed, and training needs it; pip install 'jcw-core[supernet]'"
        ) from None

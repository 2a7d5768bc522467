"""Importing modules that need torch, or an error that says what to install."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from jcw_core.errors import PluginError

_PACKAGES = ("torch", "safetensors")


def require() -> None:
    """Raise ``PluginError`` unless torch and safetensors are installed; imports neither."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise _missing(package)


def implementation(module: str) -> Any:
    """Import a module that needs torch.

    Raises:
        PluginError: torch or safetensors is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _PACKAGES:
            raise
        raise _missing(package) from None


def _missing(package: str) -> PluginError:
    return PluginError(
        f"{package} is not installed, and training needs it; pip install 'jcw-core[supernet]'", see=""
    )

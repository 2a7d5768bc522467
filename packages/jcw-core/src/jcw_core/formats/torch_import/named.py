"""``model_of``: the module that a recipe names, as a ``Model``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from jcw_core.errors import FormatError
from jcw_core.formats.torch_import.module import from_module
from jcw_core.formats.weights_file import check_fit, read_weights
from jcw_core.names import or_nearest
from jcw_core.network.model import Model


def model_of(
    name: str, shape: Sequence[int], folder: Path, weights: Path | None = None, outputs: Sequence[str] = ()
) -> Model:
    """Import a function of the user's, call it, and read the module that it returns.

    Args:
        name: ``"package.module:function"``; the function takes nothing and returns a torch module.
        shape: (channels, height, width) of the input.
        folder: where modules are looked for first, that of the recipe.
        weights: a file that replaces what the module is made with.
        outputs: names of modules within it at which the network ends.

    Returns:
        the network, named after the function's module and name.

    Raises:
        FormatError: there is no such function, it fails or returns something else, the weights do not fit, or the
            module cannot be imported as a network.
    """
    module = _made(name, folder)
    if weights is not None:
        _load(module, weights, name)
    example = torch.randn((1, *shape), generator=torch.Generator().manual_seed(0))
    return from_module(module, example, name=name, outputs=outputs)


@contextmanager
def _first(folder: Path) -> Iterator[None]:
    """Look for modules in ``folder`` first."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _made(name: str, folder: Path) -> nn.Module:
    path, colon, function = name.partition(":")
    if not path or not colon or not function:
        raise FormatError(f"{name!r} names no function; expected PACKAGE.MODULE:FUNCTION")
    with _first(folder):
        try:
            module = importlib.import_module(path)
            made = getattr(module, function)() if hasattr(module, function) else None
        except Exception as error:  # the user's own code
            if (
                isinstance(error, ModuleNotFoundError)
                and error.name
                and f"{path}.".startswith(f"{error.name}.")
            ):
                raise FormatError(f"{name}: {_no_module(path, folder)}") from None
            reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            raise FormatError(f"{name} cannot be called ({reason:.200})") from None
    if not hasattr(module, function):
        public = [found for found in vars(module) if not found.startswith("_")]
        raise FormatError(f"{name}: the module {path!r} has no {function!r}{or_nearest(function, public)}")
    if not isinstance(made, nn.Module):
        raise FormatError(f"{name} returns a {type(made).__name__}, expected a torch.nn.Module")
    return made


def _no_module(path: str, folder: Path) -> str:
    """What to say of a module that is not there."""
    place = folder.resolve()
    return f"no module {path!r} in {place} or among the installed ones{or_nearest(path, [f.stem for f in place.glob('*.py')])}"


def _load(module: nn.Module, path: Path, name: str) -> None:
    state = {
        key: tensor for key, tensor in module.state_dict().items() if not key.endswith(".num_batches_tracked")
    }
    arrays = read_weights(path)
    check_fit(path, arrays, {key: tuple(tensor.shape) for key, tensor in state.items()}, name)
    with torch.no_grad():
        for key, tensor in state.items():
            tensor.copy_(torch.from_numpy(arrays[key]))

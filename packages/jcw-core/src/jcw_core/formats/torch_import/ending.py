"""A module that returns what modules within it return, and does nothing after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from torch import nn

from jcw_core.errors import FormatError
from jcw_core.names import or_nearest


class _Ended(Exception):  # noqa: N818  no error: all that was asked for is there
    """What runs after the last module that is asked for is left out."""


@contextmanager
def ending(module: nn.Module, ends: Sequence[str], name: str) -> Iterator[None]:
    """Have a module return, by their names, what the modules ``ends`` return when they are first called, and stop there."""
    if not ends:
        yield
        return
    parts = {path: part for path, part in module.named_modules() if path}
    for path in ends:
        if path not in parts:
            raise FormatError(f"{name}: has no module {path!r:.80} to end with{or_nearest(path, parts)}")
    found: dict[str, Any] = {}
    forward, call = module.forward, nn.Module.__call__

    def ended(*inputs: Any) -> dict[str, Any]:
        found.clear()
        # While it exports, torch keeps a list of the modules that it is in, which one that is left by an exception stays on.
        traced = nn.Module.__call__
        nn.Module.__call__ = call  # type: ignore[method-assign]
        try:
            with suppress(_Ended):
                forward(*inputs)
        finally:
            nn.Module.__call__ = traced  # type: ignore[method-assign]
        uncalled = [path for path in ends if path not in found]
        if uncalled:
            raise FormatError(f"{name}: does not call its module {uncalled[0]!r:.80}")
        return {path: found[path] for path in ends}

    hooks = [parts[path].register_forward_hook(_noting(path, found, len(ends))) for path in ends]
    own = module.__dict__.get("forward")
    module.forward = ended
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own
        for hook in hooks:
            hook.remove()


def _noting(path: str, found: dict[str, Any], wanted: int) -> Callable[..., None]:
    """A hook that notes what a module returns, and ends when as many as are wanted are there."""

    def hook(part: nn.Module, inputs: Any, output: Any) -> None:
        found.setdefault(path, output)
        if len(found) == wanted:
            raise _Ended

    return hook

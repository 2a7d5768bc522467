"""Precision and threads of torch's computation, set for a block and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from jcw_core.supernet.options import Arithmetic


def computing(arithmetic: Arithmetic) -> AbstractContextManager[None]:
    """Convolutions in the precision asked for."""
    # Casts are not cached: masked weights are new tensors at every step, and the cache is not thread-safe.
    return torch.autocast("cpu", torch.bfloat16, enabled=arithmetic.precision == "bf16", cache_enabled=False)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use ``count`` threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

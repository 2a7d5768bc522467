"""How long a training will take here, told from a step or two of it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import lru_cache

import numpy as np
import torch
from torch.cuda import OutOfMemoryError

from jcw_core.network.graph import Network
from jcw_core.shown import roughly
from jcw_core.training.accelerator import scoring_within_memory
from jcw_core.training.batches import laid_out
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic
from jcw_core.training.precision import computing, threads

_IMAGES, _MACS = (4, 64), 2e9
"""Images in the step that is timed: as many as these multiply-accumulates make, of few a step takes longer for each."""


@lru_cache
def seconds_per_image(network: Network, arithmetic: Arithmetic, count: int) -> float:
    """Seconds that a training step of the whole network takes for an image, the faster of two after a first.

    It is measured once in a process, with half of the images again and again where a GPU has no memory for them.

    Args:
        network: at full width.
        arithmetic: precision, memory layout and device.
        count: threads, of which no more are used than there are processors: others would only wait.

    Raises:
        JcwError: a GPU that has no memory for the fewest.
    """
    most = min(max(round(_MACS / max(network.macs, 1)), _IMAGES[0]), _IMAGES[1])
    with threads(min(count, os.cpu_count() or 1)):
        while most > _IMAGES[0]:
            with suppress(OutOfMemoryError):
                return _seconds_of(network, arithmetic, most) / most
            most //= 2
        with scoring_within_memory(most, arithmetic):
            return _seconds_of(network, arithmetic, most) / most


def _seconds_of(network: Network, arithmetic: Arithmetic, count: int) -> float:
    """Of a step of ``count`` images."""
    module = Slimmable(network, np.random.default_rng(0)).to(arithmetic.device)
    images = laid_out(torch.zeros(count, *network.input_shape, device=arithmetic.device), arithmetic)
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        with computing(arithmetic):
            loss = execute(network, module.subnetwork(), images, BatchNorm()).float().square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        if images.is_cuda:
            torch.cuda.synchronize(images.device)
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def in_words(seconds: float) -> str:
    """A duration for people, e.g. ``"about 12 min here"``."""
    return f"about {roughly(seconds)} here"

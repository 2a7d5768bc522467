"""Where a run trains: on the processor or on a GPU, and what to do where there is none, or one that is too small."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from jcw_core.errors import JcwError
from jcw_core.protocols import Run
from jcw_core.training.options import Arithmetic


def arithmetic_of(run: Run, asked: Arithmetic) -> Arithmetic:
    """How a run's networks compute, by ``[run] accelerator``: as ``asked``, or in bf16 and NHWC on a GPU.

    Of several processes on a machine each takes a GPU of its own, as far as there are so many.

    Raises:
        RecipeError: a GPU is asked for, and torch has none.
    """
    wanted, has_one = run.recipe.run.accelerator, torch.cuda.is_available()
    if wanted == "cuda" and not has_one:
        raise run.recipe.where.inside("run").error(
            "accelerator",
            f"'cuda' asks for a GPU, and torch {torch.__version__} finds none; install a torch that is built for CUDA where "
            "there is one (nvidia-smi lists them), or give 'cpu' or 'auto'",
        )
    if wanted == "cpu" or not has_one:
        return asked
    number = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    return replace(asked, precision="bf16", channels_last=True, device=f"cuda:{number}")


@contextmanager
def within_memory(batch_size: int, processes: int = 1) -> Iterator[None]:
    """Say in a line that a step does not fit in the memory of the GPU, and which batch would.

    Args:
        batch_size: images of a step, in all processes together.
        processes: that share it.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        where = f"a part of a batch of {batch_size}" if processes > 1 else f"a batch of {batch_size}"
        raise JcwError(
            f"{where} does not fit in the memory of the GPU ({str(error).split('. ')[0]}); give batch_size = "
            f"{max(batch_size // 2, 2)}, which takes about half of it, or more GPUs"
        ) from None

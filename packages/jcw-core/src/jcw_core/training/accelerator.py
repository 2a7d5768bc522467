"""Where a run trains: on the processor or on a GPU, and what to do where there is none, or one that is too small."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import ceil

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


def lanes(arithmetic: Arithmetic, threads: int) -> int:
    """How many networks compute side by side: one in each of a processor's threads; one on a GPU, which has the memory for one."""
    return 1 if _on_gpu(arithmetic) else threads


@contextmanager
def training_within_memory(
    key: str, batch_size: int, arithmetic: Arithmetic, trial: Callable[[int], object], processes: int = 1
) -> Iterator[None]:
    """Say in a line that a step does not fit in the memory of the GPU, and which batch would.

    Args:
        key: of the batch size in the recipe.
        batch_size: images of a step, in all processes together.
        arithmetic: whose device it is.
        trial: takes a step of as many images, on this process alone, to find out.
        processes: that share the batch.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        where = f"a part of a batch of {batch_size}" if processes > 1 else f"a batch of {batch_size}"
        problem = f"{where} does not fit in the memory of the GPU ({_in_short(error)})"
        _let_go(error)
        fits = largest_that_fits(ceil(batch_size / processes), trial)
        others = _taken_by_others(arithmetic)
        if fits is None:
            raise JcwError(
                f'{problem}{others}, nor does one of 2 images; give a smaller network, or [run] accelerator = "cpu"'
            ) from None
        raise JcwError(
            f"{problem}{others}; give {key} = {processes * fits}, of which a trial step has fitted, or more GPUs"
        ) from None


@contextmanager
def scoring_within_memory(images: int, arithmetic: Arithmetic) -> Iterator[None]:
    """Say in a line that images that are looked at together do not fit in the memory of the GPU.

    Args:
        images: how many; no key of a recipe says it, as batch-norm statistics depend on it.
        arithmetic: whose device it is.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        problem = f"{images} images at a time do not fit in the memory of the GPU ({_in_short(error)})"
        _let_go(error)
        raise JcwError(
            f'{problem}{_taken_by_others(arithmetic)}; end other programs that use it, or give [run] accelerator = "cpu"'
        ) from None


def largest_that_fits(most: int, trial: Callable[[int], object]) -> int | None:
    """The largest of 7/8, 6/8 to 1/8 of ``most``, and of halves of that, with which ``trial`` does not run out of memory.

    It is tried with a sixteenth more, as a training needs some more now and then than one step. None when that is
    less than the two images that batch norm needs.
    """
    counts = [most * eighths // 8 for eighths in range(7, 0, -1)]
    while counts[-1] >= 4:
        counts.append(counts[-1] // 2)
    for count in counts:
        if count >= 2 and _fits(count + ceil(count / 16), trial):
            return count
    return None


def _fits(count: int, trial: Callable[[int], object]) -> bool:
    torch.cuda.empty_cache()
    try:
        trial(count)
    except torch.cuda.OutOfMemoryError as error:
        _let_go(error)
        return False
    return True


def _let_go(error: BaseException) -> None:
    """Free what the functions that failed have in their variables, which is what did not fit."""
    traceback.clear_frames(error.__traceback__)


def _in_short(error: BaseException) -> str:
    return str(error).split(". ")[0]


def _taken_by_others(arithmetic: Arithmetic) -> str:
    """What other programs have of the GPU's memory, in words, where it is a tenth or more."""
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(arithmetic.device)
    taken = total - free - torch.cuda.memory_reserved(arithmetic.device)
    if taken < total / 10:
        return ""
    return f", of whose {total / 2**30:.0f} GiB other programs have {taken / 2**30:.0f}"


def _on_gpu(arithmetic: Arithmetic) -> bool:
    return torch.device(arithmetic.device).type == "cuda"

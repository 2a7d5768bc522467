"""``python -m jcw_core.training.gpus``: a line for each kind of GPU that torch can use.

``jcw doctor`` asks in a process of its own, as torch takes seconds to import, and a driver may take the process down.
"""

from __future__ import annotations

from collections import Counter

import torch

_FIRST_WITH_BF16 = 8
"""Compute capability from which a GPU multiplies bfloat16 in hardware; older ones emulate it."""


def gpus() -> list[str]:
    """Each kind of GPU: how many, where there is more than one, its name, memory, and whether it has bf16."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kinds = Counter(map(_described, range(count)))
    return [f"{number} x {kind}" if number > 1 else kind for kind, number in kinds.items()]


def _described(index: int) -> str:
    found = torch.cuda.get_device_properties(index)
    bf16 = "bf16" if found.major >= _FIRST_WITH_BF16 else "no bf16"
    return f"{found.name}, {found.total_memory / 2**30:.0f} GiB, {bf16}"


if __name__ == "__main__":
    print("\n".join(gpus()))

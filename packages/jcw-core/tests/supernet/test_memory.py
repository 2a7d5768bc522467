"""What torch frees is used again, as counted by the pages that the system had to clear."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import json, resource
import torch
from jcw_core.training.memory import freed_memory_kept
from jcw_core.training.precision import threads

def faults() -> int:
    for _ in range(20):  # until no hole between small objects is just too small
        torch.ones(2**24)  # 64 MiB, more than malloc ever keeps by itself
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

found = {"before": faults()}
with threads(1):
    found["within"] = faults()
    with freed_memory_kept():
        pass
    found["after an inner block"] = faults()
print(json.dumps(found))
"""


def faults_by_place(**settings: str) -> dict[str, int]:
    own = {key: value for key, value in os.environ.items() if "MALLOC" not in key and key != "LD_PRELOAD"}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], env=own | settings, capture_output=True, text=True, check=True
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc is not glibc's")
@pytest.mark.parametrize("settings", [{}, {"MALLOC_MMAP_MAX_": "65536"}], ids=["usual", "set by the user"])
def test_freed_memory_is_used_again_within_the_block(settings: dict[str, str]) -> None:
    found = faults_by_place(**settings)
    kept = set() if settings else {"within", "after an inner block"}
    few = {name for name, count in found.items() if count < found["before"] / 4}
    assert few == kept, found

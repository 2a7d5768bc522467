"""What needs labels is refused where there are none, and not where there are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import RecipeError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.options import Location
from jcw_core.run.classes import require_classes


def run_of(labels: list[int], classes: int) -> Any:
    net = NetworkBuilder("net", (1, 4, 4))
    net.conv("conv", 4, 3)
    net.add("pool", "global_avg_pool")
    net.add("flat", "flatten")
    net.linear("fc", 2)
    pixels = np.zeros((len(labels), 1, 4, 4), np.uint8)
    names = tuple(str(number) for number in range(classes))
    data = MemoryDataset(names, (0.5,), (0.5,), pixels, np.array(labels, dtype=np.int64))
    recipe = SimpleNamespace(where=Location(Path("recipe.toml"), "[search]\n"))
    return SimpleNamespace(network=net.build(), dataset=lambda split: data, recipe=recipe)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([-1, -1, -1], 2, r"\[search\] objectives: 'error' needs labels, which the images do not have; the objective"),
        ([0, -1], 2, "which the images do not have"),
        ([0, 2, 1], 3, r"'error' needs labels, but net makes \(2,\) where the data has 3 classes"),
    ],
)  # fmt: skip
def test_labels_that_are_not_there_are_refused(labels: list[int], classes: int, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        require_classes(run_of(labels, classes), "search", "objectives", "'error'")


def test_labels_that_are_there_do() -> None:
    require_classes(run_of([0, 1, 0], 2), "search", "objectives", "'error'")

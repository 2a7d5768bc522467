"""What is shown of a search while it goes on: its front, as the checkpoint has it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from jcw_core.space.space import SearchSpace
from jcw_search import Evolution, Fixed, checkpoint
from jcw_search.stages import SearchStage


def test_the_front_of_the_checkpoint_is_drawn(
    tmp_path: Path, space: SearchSpace, evaluators: dict[str, Fixed], rng: np.random.Generator
) -> None:
    assert SearchStage().so_far(tmp_path) == ""
    search = Evolution(space=space, evaluators=evaluators, population=8, generations=4)
    state = search.step(search.start(rng), rng)
    checkpoint.save(tmp_path / "state.npz", state, search)
    shown = SearchStage().so_far(tmp_path)
    assert f"{len(state.values)} architectures evaluated, {len(state.front)} of them on the front" in shown
    assert len(re.findall("<title>front so far: ", shown)) == len(state.front) * (len(evaluators) - 1)
    assert shown.count("<svg") == len(evaluators) - 1


def test_a_checkpoint_that_is_cut_off_shows_nothing(
    tmp_path: Path, space: SearchSpace, evaluators: dict[str, Fixed], rng: np.random.Generator
) -> None:
    search, path = (
        Evolution(space=space, evaluators=evaluators, population=8, generations=4),
        tmp_path / "state.npz",
    )
    checkpoint.save(path, search.start(rng), search)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        assert SearchStage().so_far(tmp_path) == ""

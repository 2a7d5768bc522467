"""A search's checkpoint: whole, damaged, stale, or of another search."""

from __future__ import annotations

import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import search_toys as toy

from jcw_core.backbones.resnet import RESNET18
from jcw_core.errors import JcwError
from jcw_core.space.space import SearchSpace
from jcw_search import AssistedSearch, Evolution, Fixed, State, checkpoint


def assert_same(one: State, other: State) -> None:
    for field in fields(State):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_a_checkpoint_with_a_flipped_bit_counts_as_absent_or_holds_the_same(
    tmp_path: Path, space: SearchSpace, evaluators: dict[str, Fixed], rng: np.random.Generator
) -> None:
    evolution = Evolution(space=space, evaluators=evaluators, population=4, generations=4)
    state, path = evolution.start(rng), tmp_path / "state.npz"
    checkpoint.save(path, state, evolution)
    content = path.read_bytes()
    found = []
    for bit in rng.choice(8 * len(content), size=600, replace=False):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found.append(checkpoint.load(path, evolution))
    for again in filter(None, found):
        assert_same(again, state)
    assert None in found


class Trained:
    """Values hang on what the generation was announced with, as those of a supernet trained on it."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def begin_generation(self, population: np.ndarray, generation: int) -> bool:
        self.shift = zlib.crc32(population.tobytes()) / 2**32
        return True

    def evaluate(self, space: SearchSpace, population: np.ndarray) -> np.ndarray:
        return self.function(space, population) + self.shift


def test_values_that_grow_stale_are_the_same_after_every_interruption(
    tmp_path: Path, space: SearchSpace
) -> None:
    def ready() -> Evolution:
        evaluators = {"latency": Fixed(toy.latency), "error": Trained(toy.error)}
        return Evolution(space=space, evaluators=evaluators, population=8, generations=5)

    evolution = ready()
    state = evolution.start(np.random.default_rng(0))
    broken = state
    while not evolution.is_done(state):
        state = evolution.step(state, np.random.default_rng(state.generation))
        checkpoint.save(tmp_path / "state.npz", broken, evolution)
        again = ready()
        broken = checkpoint.load(tmp_path / "state.npz", again)
        broken = again.step(broken, np.random.default_rng(broken.generation))
        assert_same(broken, state)


def test_a_checkpoint_of_another_space_is_left_alone(
    tmp_path: Path, space: SearchSpace, evaluators: dict[str, Fixed]
) -> None:
    evolution = Evolution(space=space, evaluators=evaluators, population=8, generations=4)
    state = evolution.start(np.random.default_rng(0))
    checkpoint.save(tmp_path / "state.npz", state, evolution)
    assert_same(checkpoint.load(tmp_path / "state.npz", evolution), state)
    elsewhere = SearchSpace.of(RESNET18.build(num_classes=10, input_size=32))
    other = Evolution(space=elsewhere, evaluators=evaluators, population=8, generations=4)
    assert checkpoint.load(tmp_path / "state.npz", other) is None
    assisted = AssistedSearch(space=space, evaluators=evaluators, population=8, generations=4)
    loss = {"latency": evaluators["latency"], "loss": evaluators["error"]}
    lossy = Evolution(space=space, evaluators=loss, population=8, generations=4)
    channels = Evolution(space=space, evaluators=evaluators, population=8, generations=4, variant="channels")
    for search, key in ((lossy, "objectives"), (channels, "variant"), (assisted, "algorithm")):
        with pytest.raises(JcwError, match=rf"^{key}: .*state\.npz is of a search with .*; give that, or"):
            checkpoint.load(tmp_path / "state.npz", search)
    assert checkpoint.load(tmp_path / "absent.npz", evolution) is None

"""Batches made ahead of training: the same for any number of threads, and nothing is left behind."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from supernet_samples import Blobs

from jcw_core.errors import DataError
from jcw_core.protocols import Augmented
from jcw_core.ranks import Ranks
from jcw_core.training.ahead import ahead
from jcw_core.training.batches import TrainingImages, to_tensor
from jcw_core.training.options import Arithmetic, Augmentation


@dataclass(frozen=True)
class Noisy(Blobs):
    """Adds noise to its images where they are trained on, the sooner the later they were asked for."""

    @property
    def augmented(self) -> Augmented:
        def changed(indices: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.uint8]:
            time.sleep(0.002 * (indices[0] % 3))
            found: NDArray[np.uint8] = self.images(indices) ^ rng.integers(
                0, 4, (len(indices), 1, 1, 1), np.uint8
            )
            return found

        return changed


@pytest.mark.parametrize("dataset", [Blobs(50), Noisy(50)], ids=["plain", "augmented"])
def test_batches_are_the_same_for_any_number_of_threads(dataset: Blobs) -> None:
    def epoch(workers: int, seed: int = 0) -> list[torch.Tensor]:
        images = TrainingImages(dataset, Augmentation(2, True), Arithmetic(channels_last=True), workers)
        return [torch.cat([x.flatten(), y]) for x, y in images.epoch(8, np.random.default_rng(seed))]

    expected = epoch(0)
    assert len(expected) == 6
    for workers in (1, 3):
        assert all(map(torch.equal, epoch(workers), expected))
    assert not any(map(torch.equal, epoch(0, seed=1), expected))


@pytest.mark.parametrize("channels_last", [True, False])
def test_mixed_images_are_so_much_of_one_and_the_rest_of_another(channels_last: bool) -> None:
    dataset, arithmetic = Blobs(50), Arithmetic(channels_last=channels_last)
    plain = to_tensor(dataset.images(np.arange(50)), dataset, arithmetic)
    classes = torch.eye(len(dataset.classes))[dataset.labels]
    images = TrainingImages(dataset, Augmentation(mixup=0.4), arithmetic)
    for mixed, shares in images.epoch(8, np.random.default_rng(1)):
        assert mixed.stride() == plain[:8].stride()
        # One share for the whole batch: the larger part of an image that is mixed with one of another class.
        (share,) = set(shares[(shares > 0).sum(1) == 2].amax(1).tolist())
        for one in (share, 1 - share):
            pairs = one * plain[:, None] + (1 - one) * plain
            off = (mixed[:, None, None] - pairs).flatten(3).abs().amax(3)
            found = [divmod(int(at), 50) for at in off.flatten(1).argmin(1)]
            if off.flatten(1).amin(1).max() < 1e-5:
                break
        else:
            pytest.fail("an image is none of two that are there")
        expected = [one * classes[first] + (1 - one) * classes[second] for first, second in found]
        torch.testing.assert_close(shares, torch.stack(expected))


def test_processes_mix_what_one_would() -> None:
    class Part(Ranks):
        size = 3

        def __init__(self, rank: int) -> None:
            self.rank = rank

    for dataset in (Blobs(50), Noisy(50)):
        images = TrainingImages(dataset, Augmentation(2, True, mixup=0.3), Arithmetic())
        whole = list(images.epoch(8, np.random.default_rng(0)))
        parts = [list(images.epoch(8, np.random.default_rng(0), Part(rank))) for rank in range(3)]
        for step, (pixels, shares) in enumerate(whole):
            torch.testing.assert_close(torch.cat([part[step][0] for part in parts]), pixels, rtol=0, atol=0)
            torch.testing.assert_close(torch.cat([part[step][1] for part in parts]), shares, rtol=0, atol=0)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_an_error_comes_at_its_turn(workers: int) -> None:
    def made(number: int) -> int:
        if number == 3:
            raise DataError("3 is damaged")
        return number

    got = []
    with pytest.raises(DataError, match="3 is damaged"):
        got.extend(ahead(made, range(100), workers))
    assert got == [0, 1, 2]


def test_no_more_is_made_than_is_soon_wanted_and_no_thread_stays() -> None:
    before, begun = threading.active_count(), []
    made = ahead(lambda number: begun.append(number), range(1000), 2)
    for _ in range(5):
        next(made)
    time.sleep(0.05)
    assert len(begun) <= 5 + 4
    made.close()  # type: ignore[attr-defined]  # a generator, as a loop that ends early closes it
    assert threading.active_count() == before

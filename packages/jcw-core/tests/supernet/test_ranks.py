"""Two processes that train together have the numbers of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import ranks_samples
import torch
from ranks_samples import cases, train
from several import launch
from supernet_samples import Blobs

from jcw_core.errors import DataError
from jcw_core.ranks import Ranks
from jcw_core.training import checkpoint
from jcw_core.training.batches import TrainingImages
from jcw_core.training.options import Arithmetic, Augmentation


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes wrote."""
    folder = tmp_path_factory.mktemp("two")
    done = launch(ranks_samples.__file__, str(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("name", "whole"), cases())
def test_losses_weights_and_statistics_are_those_of_one_process(
    two: Path, tmp_path: Path, name: str, whole: bool
) -> None:
    key = f"{name}-{whole}"
    losses, _ = train(name, tmp_path / key, Ranks(), whole=whole)
    for rank in (0, 1):
        found = json.loads((two / f"rank{rank}" / "losses.json").read_text())[key]
        assert found == pytest.approx(losses, rel=1e-4)
    (expected, _), (found, note) = checkpoint.load(tmp_path / key), checkpoint.load(two / key)
    assert note == {"epochs": 2, "steps": 0, "loss": 0.0}
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "whole"), cases())
def test_all_processes_end_with_the_same_bits_and_so_with_the_same_masks(
    two: Path, name: str, whole: bool
) -> None:
    first, second = ((two / f"rank{rank}" / f"{name}-{whole}").read_bytes() for rank in (0, 1))
    assert first == second


def test_a_checkpoint_of_two_processes_is_gone_on_from_in_one(two: Path, tmp_path: Path) -> None:
    begun = {"one": tmp_path / "one", "two": tmp_path / "two"}
    train("residual", begun["one"], Ranks(), whole=False)
    begun["two"].write_bytes((two / "residual-False").read_bytes())
    losses = {key: train("residual", path, Ranks(), whole=False, epochs=3)[0] for key, path in begun.items()}
    assert len(losses["two"]) == 1
    assert losses["two"] == pytest.approx(losses["one"], rel=1e-3)


def test_processes_hand_each_other_what_they_have(two: Path) -> None:
    seen = [json.loads((two / f"rank{rank}" / "seen.json").read_text()) for rank in (0, 1)]
    assert [one[:3] for one in seen] == [["first", [0, 1], [0, 2, 4]], ["first", [0, 1], [1, 3]]]
    assert sorted(one[3] for one in seen) == [False, True]
    copies = [(two / f"rank{rank}" / "copied").read_bytes() for rank in (0, 1)]
    assert copies[0] == copies[1]


def several(size: int) -> list[Ranks]:
    """Processes that share a batch, of which none asks another for anything."""
    found = [Ranks() for _ in range(size)]
    for rank, one in enumerate(found):
        one.rank, one.size = rank, size
    return found


@pytest.mark.parametrize("size", [2, 3, 8])
def test_parts_of_batches_are_those_batches(dataset: Blobs, size: int) -> None:
    images = TrainingImages(dataset, Augmentation(2, True), Arithmetic())
    whole = list(images.epoch(8, np.random.default_rng(0)))
    parts = [list(images.epoch(8, np.random.default_rng(0), ranks)) for ranks in several(size)]
    for batch, together in zip(whole, zip(*parts, strict=True), strict=True):
        for index in (0, 1):
            assert torch.equal(batch[index], torch.cat([part[index] for part in together]))


def test_a_batch_has_an_image_for_each_process(dataset: Blobs) -> None:
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    with pytest.raises(DataError, match="a batch of 8 gives 9 processes less than an image each"):
        images.epoch(8, np.random.default_rng(0), several(9)[0])


def test_one_process_is_on_its_own() -> None:
    alone = Ranks()
    assert (alone.is_first, alone.speaks(), list(alone.share(3))) == (True, True, [0, 1, 2])
    assert (alone.first(lambda: 5), alone.gather(7)) == (5, [7])

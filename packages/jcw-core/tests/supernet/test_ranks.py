"""Two processes that train together have the numbers of one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import ranks_samples
import torch
from ranks_samples import ROUNDED, cases, rounded_cases, train
from several import launch
from supernet_samples import Blobs
from torch import Tensor

from jcw_core.errors import DataError
from jcw_core.ranks import Ranks
from jcw_core.training import checkpoint
from jcw_core.training.batches import TrainingImages
from jcw_core.training.options import Arithmetic, Augmentation
from jcw_core.training.together import batch_norm


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


@pytest.mark.parametrize(("name", "whole"), rounded_cases())
def test_in_bf16_they_are_those_of_one_process_but_for_its_rounding(
    two: Path, tmp_path: Path, name: str, whole: bool
) -> None:
    losses, _ = train(name, tmp_path / "one", Ranks(), whole=whole, arithmetic=ROUNDED)
    train(name, tmp_path / "exact", Ranks(), whole=whole)
    key = f"{name}-{whole}-bf16"
    first, second = ((two / f"rank{rank}" / key).read_bytes() for rank in (0, 1))
    assert first == second, "the same bits in all processes"
    assert json.loads((two / "rank0" / "losses.json").read_text())[key] == pytest.approx(losses, rel=1e-3)
    one, exact, found = (
        checkpoint.load(path)[0] for path in (tmp_path / "one", tmp_path / "exact", two / key)
    )
    assert found.keys() == one.keys()
    # bf16 costs some accuracy; two processes, which round other sums, cost no more than that again.
    assert 0 < distance(one, found) < distance(one, exact)


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """Root of the sum of squared differences of weights and statistics."""
    names = [name for name in one if name.startswith("model.")]
    return sum(float((one[name] - other[name]).double().square().sum()) for name in names) ** 0.5


def test_statistics_of_images_in_bf16_are_not_rounded() -> None:
    rng = torch.Generator().manual_seed(0)
    value = (5 + 0.1 * torch.randn(16, 8, 9, 9, generator=rng)).bfloat16()
    weight, bias = torch.randn(2, 8, generator=rng)
    found, mean, variance = batch_norm(value, weight, bias, 1e-5, Ranks())
    exact = value.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(mean, exact.mean(1), rtol=1e-6, atol=0)
    torch.testing.assert_close(variance, exact.var(1), rtol=1e-4, atol=0)
    assert found.dtype == torch.bfloat16
    expected = torch.nn.functional.batch_norm(value, None, None, weight, bias, training=True, eps=1e-5)
    torch.testing.assert_close(found, expected)


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are told by /proc")
def test_the_processes_threads_end_with_their_group(two: Path) -> None:
    """Those that go on while the interpreter ends abort the process now and then."""
    for rank in (0, 1):
        threads = json.loads((two / f"rank{rank}" / "threads.json").read_text())
        assert threads
        assert not [name for name in threads if "gloo" in name]


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

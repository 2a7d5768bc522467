"""Training: arithmetic, learning rates, augmentation and checkpoints."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from supernet_samples import Blobs, residual

from jcw_core.errors import DataError, FormatError, JcwError
from jcw_core.formats.safetensors_file import SafetensorsExporter, load_model
from jcw_core.network.architecture import Architecture
from jcw_core.network.model import Model
from jcw_core.space.space import SearchSpace
from jcw_core.supernet.evaluation import score_network, score_subnetwork
from jcw_core.supernet.sharing import Sharing
from jcw_core.training import checkpoint
from jcw_core.training.batches import FixedImages, TrainingImages, augment
from jcw_core.training.loop import Training, learning_rate
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_core.training.precision import computing, has_bf16

KINDS = {"width": "widths", "density": "densities"}


def test_bf16_is_close_to_fp32(dataset: Blobs) -> None:
    module = Slimmable(residual(), np.random.default_rng(0))
    small, scores = Architecture({"conv1": 8, "block.conv1": 4}, {"block.conv1": 0.5}), []
    for arithmetic in (Arithmetic(), Arithmetic("bf16", channels_last=True)):
        images = FixedImages(dataset, np.arange(64), 16, arithmetic)
        scores.append(score_subnetwork(module, small, images, images, arithmetic).loss)
    assert scores[0] != scores[1]
    assert scores[0] == pytest.approx(scores[1], rel=0.02)


def test_bf16_is_chosen_by_what_the_processor_has(tmp_path: Path) -> None:
    for name, flags in (("new", "fma avx512f avx512_bf16"), ("old", "fma avx512f")):
        (tmp_path / name).write_text(f"processor : 0\nflags\t\t: {flags}\n")
    assert has_bf16(tmp_path / "new")
    assert not has_bf16(tmp_path / "old")
    assert not has_bf16(tmp_path / "none")
    wanted = torch.bfloat16 if has_bf16() else torch.float32
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("auto", wanted)):
        with computing(Arithmetic(precision)):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_a_trained_network_keeps_its_running_statistics(dataset: Blobs, tmp_path: Path) -> None:
    module = Slimmable(residual(), np.random.default_rng(0))
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    options = TrainingOptions(epochs=4, batch_size=20, lr=0.1)
    Training(module, images, options, Arithmetic(), np.random.default_rng, tmp_path / "c").run()
    fixed = FixedImages(dataset, np.arange(200), 64, Arithmetic())
    assert score_network(module, fixed, Arithmetic()).error < 0.1
    assert not module.training


def test_divergence_names_the_learning_rate(dataset: Blobs, tmp_path: Path) -> None:
    module = Slimmable(residual(), np.random.default_rng(0))
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    options = TrainingOptions(epochs=3, batch_size=20, lr=1e30)
    with pytest.raises(JcwError, match="lower lr"):
        Training(module, images, options, Arithmetic(), np.random.default_rng, tmp_path / "c").run()


def test_too_few_images(dataset: Blobs) -> None:
    with pytest.raises(DataError, match="batch of 300"):
        TrainingImages(dataset, Augmentation(), Arithmetic()).steps(300)


@pytest.mark.parametrize(
    ("count", "batch"), [(64, 16), (129, 128), (130, 128), (10, 3), (9, 4), (2, 128), (1, 3)]
)
def test_no_batch_is_a_lone_image(count: int, batch: int) -> None:
    data = Blobs(count)
    sizes = [len(labels) for _, labels in FixedImages(data, np.arange(count), batch, Arithmetic())]
    assert (sum(sizes), len(sizes)) == (count, -(-count // batch))
    assert min(sizes) >= min(2, count)
    assert max(sizes) <= batch
    labels = [labels for _, labels in FixedImages(data, np.arange(count)[::-1], batch, Arithmetic())]
    assert np.array_equal(np.concatenate(labels), data.labels[::-1])


def test_training_leaves_out_a_smaller_batch(dataset: Blobs) -> None:
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    for batch in (199, 150, 66):
        sizes = [len(labels) for _, labels in images.epoch(batch, np.random.default_rng(0))]
        assert sizes == [batch] * images.steps(batch)


def test_learning_rates() -> None:
    options = TrainingOptions(epochs=10, batch_size=1, lr=2.0, lr_warmup_epochs=2)
    assert [round(learning_rate(options, e), 6) for e in (0, 1, 2, 6, 10)] == [0, 1, 2, 1, 0]
    assert learning_rate(TrainingOptions(epochs=3, batch_size=1, lr=0.5, annealing="constant"), 2.9) == 0.5


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.9, True), (0.9, False), (0.0, True)])
def test_training_follows_the_equations_of_sgd(
    dataset: Blobs, tmp_path: Path, momentum: float, nesterov: bool
) -> None:
    options = TrainingOptions(
        epochs=3, batch_size=40, lr=0.05, weight_decay=0.05, momentum=momentum, nesterov=nesterov,
        label_smoothing=0.1, lr_warmup_epochs=1,
    )  # fmt: skip
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    module, ours = (Slimmable(residual(), np.random.default_rng(0)) for _ in range(2))
    Training(module, images, options, Arithmetic(), np.random.default_rng, tmp_path / "c").run()
    rates = [0.05 * step / 5 for step in range(5)]
    rates += [0.025 * (1 + math.cos(math.pi * step / 10)) for step in range(10)]
    weights = {f"{n.name}.weight" for n in residual() if n.op in ("conv2d", "linear")}
    velocity = {name: torch.zeros_like(parameter) for name, parameter in ours.named_parameters()}
    batches = [batch for epoch in range(3) for batch in images.epoch(40, np.random.default_rng(epoch))]
    for rate, (batch, labels) in zip(rates, batches, strict=True):
        log_softmax = ours(batch).log_softmax(1)
        targets = 0.9 * torch.eye(5)[labels] + 0.1 / 5
        gradients = torch.autograd.grad(-(targets * log_softmax).sum(1).mean(), list(ours.parameters()))
        with torch.no_grad():
            for (name, parameter), gradient in zip(ours.named_parameters(), gradients, strict=True):
                slope = gradient + (0.05 * parameter if name in weights else 0)
                velocity[name] = momentum * velocity[name] + slope
                parameter -= rate * (slope + momentum * velocity[name] if nesterov else velocity[name])
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(module.get_parameter(name), parameter, rtol=1e-3, atol=1e-5)


def test_every_parent_is_trained_as_often(space: SearchSpace) -> None:
    rng = np.random.default_rng(0)
    parents = np.unique(space.sample(6, rng), axis=0)
    drawn = list(Sharing(space, parents).subnetworks(600, rng))
    counts = [drawn.count(space.architecture(row)) for row in parents]
    assert sum(counts) == 600
    # Six standard deviations of a binomial count.
    assert max(abs(count - 600 / len(parents)) for count in counts) < 6 * (600 / len(parents)) ** 0.5


def test_without_parents_the_whole_space_is_trained(space: SearchSpace) -> None:
    drawn = list(Sharing(space).subnetworks(300, np.random.default_rng(0)))
    for variable in space.variables:
        values = [getattr(a, KINDS[variable.kind])[variable.name] for a in drawn]
        assert (min(values), max(values)) == (variable.low, variable.high)


def test_augmentation_moves_and_mirrors_whole_images() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(1, 255, (50, 2, 6, 5), dtype=np.uint8)
    changed = augment(pixels, Augmentation(crop_padding=1, flip=True), rng)
    padded = np.pad(pixels, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = set()
    for before, after in zip(padded, changed, strict=True):
        options = {
            (flip, y, x): before[:, y : y + 6, x : x + 5][:, :, :: -1 if flip else 1]
            for flip in (0, 1) for y in range(3) for x in range(3)
        }  # fmt: skip
        matches = [key for key, image in options.items() if np.array_equal(image, after)]
        assert len(matches) == 1
        seen.update(matches)
    assert len(seen) > 12
    assert augment(pixels, Augmentation(), rng) is pixels


def test_a_checkpoint_that_finds_no_room_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "supernet.safetensors"
    checkpoint.save(path, {"a": torch.ones(3)}, {"epochs": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match=r"supernet\.safetensors"):
            checkpoint.save(path, {"a": torch.ones(3000)}, {"epochs": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert checkpoint.load(path)[1] == {"epochs": 1}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"a": torch.ones(3)}, {"epochs": 2})
    tensors, note = checkpoint.load(path)
    assert torch.equal(tensors["a"], torch.ones(3))
    assert note == {"epochs": 2}
    with pytest.raises(FormatError, match="'a' does not match"):
        checkpoint.load_into({"b": torch.ones(3)}, tensors, path)
    with pytest.raises(FormatError, match=r"a is \(3,\), expected \(2,\)"):
        checkpoint.load_into({"a": torch.ones(2)}, tensors, path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(FormatError, match="not a checkpoint"):
        checkpoint.load(path)
    with pytest.raises(FormatError, match="no such file"):
        checkpoint.load(tmp_path / "none")


@pytest.mark.parametrize(
    "note", [{}, {"epochs": None}, {"epochs": "2"}, {"epochs": [2]}, {"epochs": True}, {"epochs": -1}, [], 3, None]
)  # fmt: skip
def test_a_checkpoint_that_does_not_say_its_epochs(dataset: Blobs, tmp_path: Path, note: Any) -> None:
    path = tmp_path / "c.safetensors"
    module = Slimmable(residual(), np.random.default_rng(0))
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    options = TrainingOptions(epochs=1, batch_size=20, lr=0.1)
    training = Training(module, images, options, Arithmetic(), np.random.default_rng, path)
    training.run()
    checkpoint.save(path, checkpoint.load(path)[0], note)
    with pytest.raises(FormatError, match=r"c\.safetensors.*delete it and run again"):
        training.run()


@given(name=st.binary(min_size=1, max_size=20).filter(lambda name: not {0, ord("/")} & set(name)))
@settings(max_examples=30)
def test_checkpoints_and_models_lie_in_files_of_any_name(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(b"run-" + name) / os.fsdecode(name + b".safetensors")
    checkpoint.save(path, {"a": torch.arange(3.0), "none": torch.ones(0, 2)}, {"epochs": 2})
    tensors, note = checkpoint.load(path)
    assert note == {"epochs": 2}
    assert torch.equal(tensors["a"], torch.arange(3.0))
    assert tensors["none"].shape == (0, 2)
    network = residual()
    model = Model(network, Slimmable(network, np.random.default_rng(0)).weights())
    SafetensorsExporter().export(model, path)
    read = load_model(path)
    assert read.network == network
    assert all(np.array_equal(read.weights[name], array) for name, array in model.weights.items())

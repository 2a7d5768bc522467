"""Training: arithmetic, learning rates, augmentation and checkpoints."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterator
from dataclasses import replace
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
from jcw_core.supernet.draws import Draws
from jcw_core.supernet.evaluation import score_network, score_subnetwork
from jcw_core.supernet.sharing import Sharing
from jcw_core.training import checkpoint, loop
from jcw_core.training.batches import FixedImages, TrainingImages, augment
from jcw_core.training.loop import Method, Subnetworks, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.optimizer import learning_rate
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_core.training.precision import computing, has_bf16


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
    with pytest.raises(JcwError, match=r"layer '.*' is not finite; lower lr"):
        Training(module, images, options, Arithmetic(), np.random.default_rng, tmp_path / "c").run()


LEARNING = [node.name for node in residual() if node.op in ("conv2d", "batch_norm", "linear")]


class Spoiling(Method):
    """Puts a number into the weights or the gradient of a layer at a step, or has the step make it infinite."""

    def __init__(self, module: Slimmable, layer: str, kind: str, value: float, step: int) -> None:
        self._weight = module.get_parameter(f"{layer}.weight")
        self._kind, self._value, self._left = kind, value, step

    def subnetworks(self, epoch: int, steps: int, rng: np.random.Generator) -> Iterator[Subnetworks]:
        for whole in super().subnetworks(epoch, steps, rng):
            self._left -= 1
            if self._left == 0 and self._kind == "output":
                self._weight.data.flatten()[0] = self._value
            yield whole

    def adjust_gradients(self) -> None:
        assert self._weight.grad is not None
        if self._left == 0 and self._kind == "gradient":
            self._weight.grad.flatten()[0] = self._value
        if self._left == 0 and self._kind == "update":
            self._weight.data.flatten()[0], self._weight.grad.flatten()[0] = self._value, -1e38


@pytest.mark.parametrize("layer", LEARNING)
@pytest.mark.parametrize(
    ("kind", "value", "lr", "step", "said"),
    [
        ("output", math.inf, 1e-3, 6, "the output of layer {!r}"),
        ("output", math.nan, 1e-3, 10, "the output of layer {!r}"),
        ("gradient", math.inf, 1e-3, 6, "the gradient of layer {!r}"),
        ("gradient", math.nan, 1e-3, 10, "the gradient of layer {!r}"),
        # A finite gradient after which the weight is infinite, in the last step of an epoch.
        ("update", 3.4028e38, 1e-3, 10, "what layer {!r} has learnt"),
    ],
)
def test_divergence_names_the_layer_and_keeps_the_last_good_epoch(
    dataset: Blobs, tmp_path: Path, layer: str, kind: str, value: float, lr: float, step: int, said: str
) -> None:
    module = Slimmable(residual(), np.random.default_rng(0))
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    options = TrainingOptions(epochs=3, batch_size=40, lr=lr, annealing="constant", momentum=0.0)
    spoiling = Spoiling(module, layer, kind, value, step)
    path = tmp_path / "c"
    with pytest.raises(JcwError) as error:
        Training(module, images, options, Arithmetic(), np.random.default_rng, path, method=spoiling).run()
    assert f"diverged in epoch 2: {said.format(layer)}" in str(error.value)
    assert f"{path} keeps epoch 1" in str(error.value)
    tensors, note = checkpoint.load(path)
    assert note == {"epochs": 1, "steps": 0, "loss": 0.0}
    assert all(tensor.isfinite().all() for tensor in tensors.values())


class Killed(Sharing):
    """Draws sub-networks until it is stopped in the midst of an epoch."""

    def __init__(self, draws: Draws, left: int) -> None:
        super().__init__(draws)
        self._left = left

    def adjust_gradients(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("rule", ["plain", "sandwich"])
@pytest.mark.parametrize("step", [1, 3, 5, 6, 9])
def test_a_training_that_was_killed_within_an_epoch_ends_as_one_that_was_not(
    dataset: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, rule: Any, workers: int
) -> None:
    draws = Draws(SearchSpace.of(residual()), rule=rule)
    images = TrainingImages(dataset, Augmentation(1, True, mixup=0.3), Arithmetic(), workers)
    options = TrainingOptions(epochs=2, batch_size=40, lr=0.05, ema=0.9)
    losses: list[list[float]] = []

    def train(path: Path, method: Method) -> dict[str, torch.Tensor]:
        module = Slimmable(residual(), np.random.default_rng(0))
        losses.append([])
        report = lambda epoch: losses[-1].append(epoch.loss)  # noqa: E731
        rng = np.random.default_rng
        Training(module, images, options, Arithmetic(), rng, path, report=report, method=method).run()
        return module.state_dict()

    whole = train(tmp_path / "whole", Sharing(draws))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", Killed(draws, step))
    if step > 1:
        note = checkpoint.load(tmp_path / "killed")[1]
        assert (note["epochs"], note["steps"]) == divmod(step - 1, 5)
    found = train(tmp_path / "killed", Sharing(draws))
    assert all(torch.equal(found[name], tensor) for name, tensor in whole.items())
    assert losses[-1] == losses[0][-len(losses[-1]) :]


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
    draws = Sharing(Draws(space, population=parents))
    drawn = [architecture for (architecture,) in draws.subnetworks(0, 600, rng)]
    counts = [drawn.count(space.architecture(row)) for row in parents]
    assert sum(counts) == 600
    # Six standard deviations of a binomial count.
    assert max(abs(count - 600 / len(parents)) for count in counts) < 6 * (600 / len(parents)) ** 0.5


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_sandwich_adds_up_the_gradients_of_its_networks_and_the_largest_teaches(
    dataset: Blobs, tmp_path: Path, smoothing: float
) -> None:
    space = SearchSpace.of(residual())
    draws = Draws(space, rule="sandwich")
    options = TrainingOptions(epochs=1, batch_size=200, lr=0.1, momentum=0.0, label_smoothing=smoothing)
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    module, ours = (Slimmable(residual(), np.random.default_rng(0)) for _ in range(2))
    sharing, rng = Sharing(draws), np.random.default_rng
    Training(module, images, options, Arithmetic(), rng, tmp_path / "c", method=sharing).run()
    generator = np.random.default_rng(0)
    ((largest, *others),) = sharing.subnetworks(0, 1, generator)
    ((batch, labels),) = images.epoch(200, generator)
    assert len(others) == 3
    log_softmax = ours(batch, largest).log_softmax(1)
    targets = (1 - smoothing) * torch.eye(5)[labels] + smoothing / 5
    loss = -(targets * log_softmax).sum(1).mean()
    taught = log_softmax.detach().exp()
    loss = loss - sum((taught * ours(batch, one).log_softmax(1)).sum(1).mean() for one in others)
    gradients = torch.autograd.grad(loss, list(ours.parameters()))
    for (name, parameter), gradient in zip(ours.named_parameters(), gradients, strict=True):
        expected = parameter.detach() - 0.1 * gradient
        torch.testing.assert_close(module.get_parameter(name).detach(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("decay", [0.5, 0.97])
def test_averaged_weights_are_the_moving_average_of_every_step(
    dataset: Blobs, tmp_path: Path, decay: float
) -> None:
    images = TrainingImages(dataset, Augmentation(), Arithmetic())
    options = TrainingOptions(epochs=3, batch_size=40, lr=0.05, annealing="constant")
    seen: list[dict[str, torch.Tensor]] = []

    class Watching(Method):
        def adjust_gradients(self) -> None:
            seen.append({name: p.detach().double() for name, p in plain.named_parameters()})

    plain, averaged = (Slimmable(residual(), np.random.default_rng(0)) for _ in range(2))
    rng = np.random.default_rng
    Training(plain, images, options, Arithmetic(), rng, tmp_path / "p", method=Watching()).run()
    seen.append({name: p.detach().double() for name, p in plain.named_parameters()})
    Training(averaged, images, replace(options, ema=decay), Arithmetic(), rng, tmp_path / "a").run()
    for name, parameter in averaged.named_parameters():
        average = seen[0][name]
        for step, weights in enumerate(seen[1:]):
            kept = min(decay, (1 + step) / (10 + step))
            average = kept * average + (1 - kept) * weights[name]
        torch.testing.assert_close(parameter.detach().double(), average, rtol=1e-4, atol=1e-6)
        assert not torch.equal(parameter, plain.get_parameter(name))
    assert len(seen) == 1 + 15


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
    "note",
    [
        *({}, {"epochs": None}, {"epochs": "2"}, {"epochs": [2]}, {"epochs": True}, {"epochs": -1}, [], 3, None),
        *({"epochs": 0, "steps": -1}, {"epochs": 0, "steps": 0.5}, {"epochs": 0, "loss": math.nan}, {"epochs": 0, "loss": "0"}),
    ],
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

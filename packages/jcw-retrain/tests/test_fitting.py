"""The phases of one model: which there are, and what ADMM and the pruning after it do to the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from retrain_samples import NARROW, SMALL, Stripes, network

from jcw_core.network.architecture import Architecture
from jcw_core.network.model import Model
from jcw_core.network.shrink import Weights, shrink, shrink_weights
from jcw_core.network.weight_groups import density_mask
from jcw_core.training import checkpoint
from jcw_core.training.batches import Batch, FixedImages, TrainingImages
from jcw_core.training.loop import Method, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_retrain import fitting
from jcw_retrain.admm import Admm, FixedMasks
from jcw_retrain.fitting import Fitting
from jcw_retrain.options import Phases

PRETRAIN = TrainingOptions(epochs=2, batch_size=16, lr=0.05)
ADMM = replace(PRETRAIN, epochs=6, lr=0.02, annealing="constant")
FINETUNE = replace(PRETRAIN, lr=0.01)


CALIBRATION = FixedImages(Stripes(160), np.arange(100), 128, Arithmetic())


def fitting_of(
    folder: Path,
    phases: Phases,
    architecture: Architecture = SMALL,
    initial: Weights | None = None,
    probe: Sequence[Batch] = (),
) -> Fitting:
    return Fitting(
        network=network(),
        architecture=architecture,
        initial=initial,
        images=TrainingImages(Stripes(160), Augmentation(), Arithmetic()),
        calibration=CALIBRATION,
        phases=phases,
        arithmetic=Arithmetic(),
        rng=lambda phase, epoch=0: np.random.default_rng([len(phase), epoch]),
        folder=folder,
        report=lambda done, detail: None,
        stop=Event(),
        probe=probe,
    )


def fit(
    folder: Path,
    architecture: Architecture = SMALL,
    *,
    phases: Phases = Phases(PRETRAIN, ADMM, FINETUNE, 0.5),  # noqa: B008  frozen
    initial: Weights | None = None,
) -> Model:
    return fitting_of(folder, phases, architecture, initial).run().model


WHOLE = Architecture({}, {})


@pytest.mark.parametrize("architecture", [SMALL, NARROW, WHOLE], ids=["pruned", "narrow", "baseline"])
def test_dense_and_pruned_models_have_one_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: Architecture
) -> None:
    trained = []

    class Spy(Training):
        def run(self) -> None:
            trained.append((self.path.stem, self.options, type(self.method)))

    monkeypatch.setattr(fitting, "Training", Spy)
    fit(tmp_path, architecture)
    assert trained == [
        ("pretrain", PRETRAIN, Method),
        ("admm", ADMM, Admm),
        ("finetune", FINETUNE, FixedMasks),
    ]


@pytest.mark.parametrize("architecture", [NARROW, WHOLE], ids=["narrow", "baseline"])
def test_a_dense_model_is_trained_through_all_phases_without_pruning(
    tmp_path: Path, architecture: Architecture
) -> None:
    """ADMM pulls nothing and no mask holds: the same as plain training with the options of each phase."""
    found = fit(tmp_path / "ours", architecture)
    module = Slimmable(shrink(network(), architecture), np.random.default_rng([len("weights"), 0]))
    images = TrainingImages(Stripes(160), Augmentation(), Arithmetic())
    for phase, options in (("pretrain", PRETRAIN), ("admm", ADMM), ("finetune", FINETUNE)):

        def rng(epoch: int, phase: str = phase) -> np.random.Generator:
            return np.random.default_rng([len(phase), epoch])

        Training(module, images, options, Arithmetic(), rng, tmp_path / phase).run()
    weights = module.weights()
    for name in network().parameter_shapes:
        np.testing.assert_array_equal(found.weights[name], weights[name])


@pytest.mark.parametrize("architecture", [SMALL, NARROW, WHOLE], ids=["pruned", "narrow", "baseline"])
@pytest.mark.parametrize(("pretrain", "admm"), [(2, 3), (2, 0), (0, 0)])
@pytest.mark.parametrize("from_supernet", [False, True])
def test_statistics_are_those_of_the_weights_that_pruning_leaves(
    tmp_path: Path, architecture: Architecture, pretrain: int, admm: int, from_supernet: bool
) -> None:
    initial = None
    if from_supernet:
        rng = np.random.default_rng(5)
        whole = {name: rng.normal(1, 0.3, shape).astype("f4") for name, shape in shapes().items()}
        initial = shrink_weights(network(), architecture, whole)
    phases = Phases(
        replace(PRETRAIN, epochs=pretrain), replace(ADMM, epochs=admm), replace(FINETUNE, epochs=0), 0.5
    )
    model = fit(tmp_path, architecture, phases=phases, initial=initial)
    for name, (mean, variance) in statistics(model, CALIBRATION[0][0]).items():
        np.testing.assert_allclose(model.weights[f"{name}.running_mean"], mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.weights[f"{name}.running_var"], variance, rtol=1e-4, atol=1e-5)


def shapes() -> dict[str, tuple[int, ...]]:
    return {**network().parameter_shapes, **network().buffer_shapes}


def statistics(model: Model, images: torch.Tensor) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of what each batch norm of the small network reads, by hand in float64."""
    weights = {name: torch.from_numpy(array).double() for name, array in model.weights.items()}
    found = {}

    def layer(number: int, value: torch.Tensor) -> torch.Tensor:
        weight = weights[f"conv{number}.weight"]
        value = torch.nn.functional.conv2d(value, weight, padding=weight.shape[-1] // 2)
        found[f"bn{number}"] = value.mean((0, 2, 3)).numpy(), value.var((0, 2, 3)).numpy()
        mean, variance = value.mean((0, 2, 3), True), value.var((0, 2, 3), False, True)
        scale, shift = (weights[f"bn{number}.{key}"][:, None, None] for key in ("weight", "bias"))
        return (value - mean) / (variance + 1e-5).sqrt() * scale + shift

    layer(3, layer(2, layer(1, images.double()).relu()).relu())
    return found


def after_admm(folder: Path, layer: str) -> np.ndarray:
    """Weights of a layer as ADMM has left them, before they are pruned."""
    tensors, _ = checkpoint.load(folder / "admm.safetensors")
    return tensors[f"model.{layer}.weight"].numpy()


def test_admm_brings_weights_near_their_pruned_selves(tmp_path: Path) -> None:
    left = []
    for rho in (0.0, 2.0):
        fit(tmp_path / str(rho), phases=Phases(PRETRAIN, ADMM, FINETUNE, rho))
        weight = after_admm(tmp_path / str(rho), "conv2")
        left.append(np.linalg.norm(weight[density_mask(weight, 0.4) == 0]) / np.linalg.norm(weight))
    assert left[1] < 0.5 * left[0]


def test_what_is_kept_are_the_largest_groups_that_admm_leaves(tmp_path: Path) -> None:
    model = fit(tmp_path)
    for layer, density in (("conv2", 0.4), ("conv3", 0.5)):
        expected = density_mask(after_admm(tmp_path, layer), density, order=2)
        assert np.array_equal(model.weights[f"{layer}.weight"] != 0, expected != 0)

"""The phases of one model: which there are, and what ADMM and the pruning after it do to the weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from retrain_samples import NARROW, SMALL, Stripes, network

from jcw_core.network.architecture import Architecture
from jcw_core.network.model import Model
from jcw_core.network.weight_groups import density_mask
from jcw_core.training import checkpoint
from jcw_core.training.batches import TrainingImages
from jcw_core.training.loop import Method, Training
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_retrain import fitting
from jcw_retrain.admm import Admm, FixedMasks
from jcw_retrain.fitting import Fitting
from jcw_retrain.options import Phases

PRETRAIN = TrainingOptions(epochs=2, batch_size=16, lr=0.05)
ADMM = replace(PRETRAIN, epochs=6, lr=0.02, annealing="constant")
FINETUNE = replace(PRETRAIN, lr=0.01)


def fit(folder: Path, architecture: Architecture = SMALL, rho: float = 0.5) -> Model:
    return Fitting(
        network=network(),
        architecture=architecture,
        initial=None,
        images=TrainingImages(Stripes(160), Augmentation(), Arithmetic()),
        phases=Phases(PRETRAIN, ADMM, FINETUNE, rho),
        arithmetic=Arithmetic(),
        rng=lambda phase, epoch=0: np.random.default_rng([len(phase), epoch]),
        folder=folder,
        report=lambda done, detail: None,
        stop=Event(),
    ).run()


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        (SMALL, [("pretrain", PRETRAIN, Method), ("admm", ADMM, Admm), ("finetune", FINETUNE, FixedMasks)]),
        (NARROW, [("dense", replace(PRETRAIN, epochs=10), Method)]),
    ],
    ids=["pruned", "dense"],
)
def test_each_phase_has_its_method_and_its_options(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    architecture: Architecture,
    expected: list[tuple[str, TrainingOptions, type[Method]]],
) -> None:
    trained = []

    class Spy(Training):
        def run(self) -> None:
            trained.append((self.path.stem, self.options, type(self.method)))

    monkeypatch.setattr(fitting, "Training", Spy)
    fit(tmp_path, architecture)
    assert trained == expected


def after_admm(folder: Path, layer: str) -> np.ndarray:
    """Weights of a layer as ADMM has left them, before they are pruned."""
    tensors, _ = checkpoint.load(folder / "admm.safetensors")
    return tensors[f"model.{layer}.weight"].numpy()


def test_admm_brings_weights_near_their_pruned_selves(tmp_path: Path) -> None:
    left = []
    for rho in (0.0, 2.0):
        fit(tmp_path / str(rho), rho=rho)
        weight = after_admm(tmp_path / str(rho), "conv2")
        left.append(np.linalg.norm(weight[density_mask(weight, 0.4) == 0]) / np.linalg.norm(weight))
    assert left[1] < 0.5 * left[0]


def test_what_is_kept_are_the_largest_groups_that_admm_leaves(tmp_path: Path) -> None:
    model = fit(tmp_path)
    for layer, density in (("conv2", 0.4), ("conv3", 0.5)):
        expected = density_mask(after_admm(tmp_path, layer), density, order=2)
        assert np.array_equal(model.weights[f"{layer}.weight"] != 0, expected != 0)

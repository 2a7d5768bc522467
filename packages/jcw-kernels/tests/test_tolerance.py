"""Layers stay in floats where int8 would change what the network says by more than is allowed."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from kernel_samples import weights_for
from numpy.typing import NDArray

from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_kernels import calibrate, compile_model
from jcw_kernels.quantization import Quantization

F32 = NDArray[np.float32]
LAYERS = ["good", "bad", "last"]


@pytest.fixture
def uneven(rng: np.random.Generator) -> tuple[Model, F32]:
    """A network of which ``bad`` reads values of very different sizes that matter all alike, and images for it."""
    b = NetworkBuilder("uneven", (4, 16, 16))
    b.conv("good", 4, 3, bias=True)
    b.conv("bad", 8, 3, bias=True)
    b.add("relu", "relu")
    b.conv("last", 5, 3, bias=True)
    arrays = weights_for(b.build(), rng)
    arrays["good.weight"][0] *= 1e4
    arrays["bad.weight"][:, 0] *= 1e-4
    return Model(b.build(), arrays), rng.standard_normal((24, 4, 16, 16), dtype=np.float32)


def change(model: Model, images: F32, quantization: Quantization) -> float:
    exact, found = (compile_model(model, quantization=q).run(images) for q in (None, quantization))
    return float(np.square(found - exact).sum() / np.square(exact).sum())


def test_what_changes_the_outputs_most_stays_in_floats(
    uneven: tuple[Model, F32], caplog: pytest.LogCaptureFixture
) -> None:
    every = calibrate(*uneven, layers=LAYERS)
    assert set(every) == set(LAYERS)
    assert change(*uneven, every) > 0.05
    with caplog.at_level(logging.INFO, logger="jcw_kernels"):
        kept = calibrate(*uneven, layers=LAYERS, most_error=0.01)
    assert set(kept) == {"good", "last"}
    assert change(*uneven, kept) < 0.02
    assert "bad stays in floats" in caplog.text
    assert "good stays" not in caplog.text


@pytest.mark.parametrize(("most_error", "kept"), [(1e6, LAYERS), (1e-12, [])])
def test_at_the_ends_all_or_none_do(most_error: float, kept: list[str], uneven: tuple[Model, F32]) -> None:
    assert list(calibrate(*uneven, layers=LAYERS, most_error=most_error)) == kept


def test_numbers_of_what_is_left_stay_as_they_are(uneven: tuple[Model, F32]) -> None:
    every = calibrate(*uneven, layers=LAYERS)
    kept = calibrate(*uneven, layers=LAYERS, most_error=0.01)
    assert all((kept[name].scale, kept[name].zero) == (every[name].scale, every[name].zero) for name in kept)

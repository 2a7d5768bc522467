"""The size of the second-level cache, by which bands are made."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_samples import conv_network, weights_for

from jcw_core.errors import JcwError
from jcw_core.network.model import Model
from jcw_core.network.weight_groups import density_mask
from jcw_core.protocols import Precision
from jcw_kernels import available_isas, compile_model

LEAST, MOST = 1 << 16, 1 << 30


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("density", [1.0, 0.3])
@pytest.mark.parametrize("stride", [1, 2])
def test_results_do_not_depend_on_it(
    stride: int, density: float, precision: Precision, isa: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """In bands of a few rows, and in one."""
    network = conv_network((32, 40, 40), 64, (3, 3), stride=(stride, stride), padding=(1, 1))
    weights = dict(weights_for(network, rng))
    (name,) = (key for key in weights if key.endswith("weight"))
    weights[name] = weights[name] * density_mask(weights[name], density)
    images = rng.normal(size=(1, *network.input_shape)).astype(np.float32)
    outputs = []
    for size in (LEAST, MOST):
        monkeypatch.setenv("JCW_L2", str(size))
        outputs.append(compile_model(Model(network, weights), isa=isa, precision=precision).run(images))
    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize("size", ["", "1M", str(LEAST - 1), "-1", str(MOST + 1), "9" * 30])
def test_what_is_no_size_is_refused(
    size: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JCW_L2", size)
    network = conv_network((4, 8, 8), 4, (3, 3), stride=(2, 2), padding=(1, 1))
    with pytest.raises(JcwError, match=r"JCW_L2 is '.*', expected bytes of a second-level cache"):
        compile_model(Model(network, weights_for(network, rng)))

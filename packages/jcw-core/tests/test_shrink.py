"""Cut networks and weights, against a torch network that is built at the small size."""

from __future__ import annotations

import numpy as np
import pytest
from core_networks import random_weights, run, small_resnet

from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.backbones.resnet import resnet18
from jcw_core.errors import ArchitectureError
from jcw_core.network.architecture import Architecture
from jcw_core.network.shrink import shrink, shrink_weights


def test_against_torch_at_the_small_size() -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    network = small_resnet(8)
    rng = np.random.default_rng(3)
    weights, image = random_weights(network, rng), rng.normal(size=(3, 8, 8))
    stem, inner, reduce, branch = 5, 7, 3, 9
    architecture = Architecture(
        {"stem": stem, "block.conv1": inner, "se.reduce": reduce, "branch": branch}, {"fc": 0.5}
    )
    w = {name: torch.from_numpy(value).double() for name, value in weights.items()}

    def norm(x, name, keep):
        parts = [w[f"{name}.{key}"][keep] for key in ("running_mean", "running_var", "weight", "bias")]
        return functional.batch_norm(x, *parts, eps=1e-5)

    x = torch.from_numpy(image)[None]
    x = functional.relu(
        norm(functional.conv2d(x, w["stem.weight"][:stem], padding=1), "stem_bn", slice(stem))
    )
    y = functional.relu(functional.conv2d(x, w["block.conv1.weight"][:inner, :stem]))
    y = functional.conv2d(y, w["block.conv2.weight"][:stem, :inner], padding=1)
    x = functional.relu(norm(y, "block.bn2", slice(stem)) + x)
    gate = functional.relu(
        functional.conv2d(
            x.mean((2, 3), keepdim=True), w["se.reduce.weight"][:reduce, :stem], w["se.reduce.bias"][:reduce]
        )
    )
    gate = functional.conv2d(gate, w["se.expand.weight"][:stem, :reduce], w["se.expand.bias"][:stem])
    x = x * functional.hardsigmoid(gate)
    y = functional.relu(functional.conv2d(x, w["branch.weight"][:branch, :stem]))
    y = functional.conv2d(y, w["branch_dw.weight"][:branch], padding=1, groups=branch)
    x = torch.cat([x, norm(y, "branch_bn", slice(branch))], dim=1)
    keep = [*range(stem), *range(8, 8 + branch)]
    x = functional.conv2d(x, w["dw.weight"][keep], stride=2, padding=1, groups=len(keep))
    x = norm(x, "dw_bn", keep)
    features = w["fc.weight"].reshape(3, 20, 16)[:, keep].reshape(3, -1)
    expected = functional.linear(x.flatten(1), features, w["fc.bias"])[0]

    small = shrink(network, architecture)
    found = run(small, shrink_weights(network, architecture, weights), image)["output"]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("build", [resnet18, mobilenet_v2])
def test_the_whole_architecture_changes_nothing(build) -> None:
    network = build(width=0.25, input_size=32, num_classes=10)
    weights = random_weights(network, np.random.default_rng(0))
    whole = Architecture({}, {})
    assert shrink(network, whole) == network
    cut = shrink_weights(network, whole, weights)
    assert cut.keys() == weights.keys()
    assert all((cut[name] == weights[name]).all() and cut[name] is not weights[name] for name in weights)


def test_cut_weights_fit_the_cut_network() -> None:
    network = mobilenet_v2(width=0.5, input_size=32, num_classes=10)
    architecture = Architecture({"features.0.0": 8, "features.2.conv.2": 4, "features.18.0": 100}, {})
    small = shrink(network, architecture)
    weights = shrink_weights(network, architecture, random_weights(network, np.random.default_rng(0)))
    assert {name: w.shape for name, w in weights.items()} == {**small.parameter_shapes, **small.buffer_shapes}
    assert small.macs < network.macs


def test_architectures_of_another_network() -> None:
    with pytest.raises(ArchitectureError, match="'layer9': no such group"):
        shrink(small_resnet(), Architecture({"layer9": 4}, {}))
    with pytest.raises(ArchitectureError, match="'stem': it has 8 channels"):
        shrink(small_resnet(), Architecture({"stem": 9}, {}))
    with pytest.raises(ArchitectureError, match="fc"):
        shrink(small_resnet(), Architecture({"fc": 2}, {}))

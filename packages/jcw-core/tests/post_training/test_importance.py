"""Criteria of channel importance: what each measures, and that ordering by any of them changes no output."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from core_networks import small_resnet
from numpy.typing import NDArray
from post_training_samples import NETWORKS, outputs, random_images, random_tensors
from supernet_samples import depthwise, residual, transposed

from jcw_core.errors import PluginError
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.post_training.criteria import CRITERIA, BuiltIn
from jcw_core.post_training.database import build
from jcw_core.post_training.importance import batch_norm_scales, l1_norms
from jcw_core.post_training.statistics import gram_matrices
from jcw_core.post_training.taylor import taylor
from jcw_core.training.execution import BatchNorm


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda criterion: criterion.name)
@pytest.mark.parametrize("network", [build() for build in NETWORKS.values()], ids=NETWORKS)
def test_outputs_stay_whatever_orders_the_channels(network: Network, criterion: BuiltIn) -> None:
    tensors, images = random_tensors(network, 1), random_images(network, 20)
    made = build(network, tensors, [images], criterion)
    whole = {**made.tensors, **made.weights(Architecture({}, {}))}
    torch.testing.assert_close(
        outputs(network, whole, images), outputs(network, tensors, images), rtol=1e-4, atol=1e-4
    )
    norm = BatchNorm({name: tensors[name] for name in network.buffer_shapes})
    grams = gram_matrices(network, tensors, norm, [images])
    found = criterion.measure(network, tensors, grams, [images])
    groups = {name: g for name, g in couple(network).groups.items() if not g.fixed}
    assert {name: values.shape for name, values in found.items()} == {
        n: (g.channels,) for n, g in groups.items()
    }
    assert all(
        np.isfinite(values).all() and (values >= 0).all() and values.any() for values in found.values()
    )


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda criterion: criterion.name)
def test_channels_that_do_nothing_go_last(criterion: BuiltIn) -> None:
    network, dead = residual(), [2, 5, 7]
    tensors = random_tensors(network, 3)
    for name in ("block.conv1.weight", "block.bn1.weight", "block.bn1.bias"):
        tensors[name][dead] = 0
    tensors["block.conv2.weight"][:, dead] = 0
    images = random_images(network, 16)
    grams = gram_matrices(
        network, tensors, BatchNorm({n: tensors[n] for n in network.buffer_shapes}), [images]
    )
    found = criterion.measure(network, tensors, grams, [images])["block.conv1"]
    assert set(np.flatnonzero(found == 0)) == set(dead)


@pytest.mark.parametrize("network", [residual(), depthwise()], ids=["residual", "depthwise"])
def test_l1_norms_and_scales_are_sums_over_all_that_writes_a_channel(network: Network) -> None:
    tensors = random_tensors(network, 5)
    norms, scales = l1_norms(network, tensors), batch_norm_scales(network, tensors)
    for name, group in couple(network).groups.items():
        if group.fixed:
            continue
        rows = sum(
            np.abs(tensors[f"{layer}.weight"].numpy()).reshape(group.channels, -1).sum(1)
            for layer in group.layers
        )
        np.testing.assert_allclose(norms[name], rows, rtol=1e-5)
        norm_nodes = [
            r for layer in group.layers for r in network.consumers[layer] if network[r].op == "batch_norm"
        ]
        gammas = sum(np.abs(tensors[f"{node}.weight"].numpy()) for node in norm_nodes)
        np.testing.assert_allclose(scales[name], gammas if norm_nodes else rows, rtol=1e-5)


@pytest.mark.parametrize(
    "build_network", [small_resnet, depthwise, transposed], ids=["residual", "depthwise", "transposed"]
)
def test_taylor_is_the_square_of_how_the_loss_changes_as_a_gate_closes(build_network: object) -> None:
    network: Network = build_network()  # type: ignore[operator]
    tensors, images = random_tensors(network, 7), random_images(network, 6)
    tensors["fc.weight"] *= 0.02  # so that the loss is not 0 to all digits
    exact = {name: tensor.double() for name, tensor in tensors.items()}
    target = outputs(network, exact, images.double()).argmax(1)
    found = taylor(network, tensors, [images])

    def loss(group: str, channel: int, gate: float) -> float:
        gated = {name: tensor.clone() for name, tensor in exact.items()}
        for layer in couple(network).groups[group].layers:
            if network[layer].attributes.get("groups", 1) > 1:  # depthwise: the layer before has the gate
                continue
            norms = [r for r in network.consumers[layer] if network[r].op == "batch_norm"]
            for key in ("weight", "bias"):
                name = f"{(norms or [layer])[0]}.{key}"
                if name in gated:
                    gated[name][channel] *= gate
        return float(F.cross_entropy(outputs(network, gated, images.double()), target))

    for group, values in found.items():
        slopes = [(loss(group, c, 1 + 1e-5) - loss(group, c, 1 - 1e-5)) / 2e-5 for c in range(len(values))]
        np.testing.assert_allclose(values, np.square(slopes), rtol=1e-2, atol=1e-4 * np.square(slopes).max())


class Broken:
    name = "broken"

    def __init__(self, found: dict[str, NDArray[np.float64]]) -> None:
        self.found = found

    def measure(self, network: object, tensors: object, grams: object, images: object) -> object:
        return self.found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"fc": np.zeros(4)}, "'broken' ranks 'fc', no group"),
        ({"block.conv1": np.zeros(3)}, r"of group 'block.conv1' is \(3,\) or not finite"),
        ({"block.conv1": np.full(16, np.nan)}, "or not finite"),
    ],
)
def test_what_is_no_order_is_refused(found: dict[str, NDArray[np.float64]], message: str) -> None:
    network = small_resnet()
    with pytest.raises(PluginError, match=message):
        build(network, random_tensors(network, 0), [random_images(network, 4)], Broken(found))  # type: ignore[arg-type]


def test_a_group_that_a_criterion_leaves_out_keeps_its_order() -> None:
    network, tensors = small_resnet(), random_tensors(small_resnet(), 0)
    order = np.arange(16.0)
    made = build(network, tensors, [random_images(network, 4)], Broken({"block.conv1": order}))  # type: ignore[arg-type]
    assert torch.equal(made.tensors["block.conv1.weight"], tensors["block.conv1.weight"][range(15, -1, -1)])
    assert torch.equal(made.tensors["block.bn2.weight"], tensors["block.bn2.weight"])

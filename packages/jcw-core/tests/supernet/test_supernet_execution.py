"""Running a graph: values and gradients are the same whether or not activations overwrite their input."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from core_networks import ACTIVATIONS, networks, random_weights, run
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from jcw_core.backbones.mobilenet_v1 import mobilenet_v1
from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.backbones.resnet import resnet18, resnet50
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.training import execution
from jcw_core.training.execution import BatchNorm, execute, may_overwrite


def read_through_a_view() -> Network:
    net = NetworkBuilder("view", (3, 4, 4))
    plane = net.conv("conv", 2, 3)
    flat = net.add("flat", "flatten")
    net.add("relu", "relu", plane)
    net.add("sum", "add", flat, net.add("flat2", "flatten"))
    return net.build()


@st.composite
def tangles(draw: st.DrawFn) -> Network:
    """A network whose values have several readers, activations and views among them, and all reach its output."""
    net = NetworkBuilder("tangle", (2, 3, 3))
    planes, flats = [net.conv("conv", 2, 3)], list[str]()
    for index in range(draw(st.integers(2, 8))):
        name, values = f"n{index}", draw(st.sampled_from([planes, flats or planes]))
        source, other = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        kinds = ["linear"] if values is flats else ["conv", "batch_norm", "flatten"]
        kind = draw(st.sampled_from(["add", "relu", *kinds]))
        if kind == "add":
            net.add(name, "add", source, other)
        elif kind == "conv":
            net.conv(name, 2, 3, source=source)
        elif kind == "batch_norm":
            net.batch_norm(name, source=source)
        elif kind == "linear":
            net.linear(name, 18, source=source)
        else:
            net.add(name, kind, source)
        (flats if kind == "flatten" else values).append(name)
    read = {name for node in net._nodes for name in node.inputs}
    total = ""
    for end in [name for name in (*planes, *flats) if name not in read]:
        flat = net.add(f"{end}.flat", "flatten", end)
        total = net.add(f"{end}.sum", "add", total, flat) if total else flat
    return net.build(output=total)


def values_and_gradients(
    network: Network, weights: dict[str, np.ndarray], images: np.ndarray
) -> tuple[Tensor, dict[str, Tensor | None]]:
    tensors = {name: torch.from_numpy(array).double() for name, array in weights.items()}
    parameters = {name: tensors[name].requires_grad_() for name in network.parameter_shapes}
    inputs = torch.from_numpy(images).requires_grad_()
    logits = execute(network, tensors, inputs, BatchNorm(tensors))
    logits.square().sum().backward()
    return logits.detach(), {name: tensor.grad for name, tensor in [*parameters.items(), ("", inputs)]}


@given(networks() | tangles(), st.integers(0, 2**32 - 1))
@example(read_through_a_view(), 0)
def test_activations_in_place_change_no_value_and_no_gradient(network: Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, images = random_weights(network, rng), rng.normal(size=(2, *network.input_shape))
    logits, gradients = values_and_gradients(network, weights, images)
    expected = [run(network, weights, image)[network.output.name].reshape(-1) for image in images]
    np.testing.assert_allclose(logits, expected, rtol=1e-9, atol=1e-9)
    with mock.patch.object(execution, "may_overwrite", return_value=False):
        plain, plain_gradients = values_and_gradients(network, weights, images)
    torch.testing.assert_close((logits, gradients), (plain, plain_gradients), rtol=0, atol=0)


@pytest.mark.parametrize("build", [resnet18, resnet50, mobilenet_v1, mobilenet_v2])
def test_every_activation_of_a_backbone_overwrites(build) -> None:  # type: ignore[no-untyped-def]
    network = build(width=0.25, input_size=32, num_classes=10)
    assert all(may_overwrite(network, node) for node in network if node.op in ACTIVATIONS)

"""Torch modules as networks: the same outputs, and smaller ones where channels are cut."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from core_networks import run
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_detectors import CUT, DETECTORS, flat
from torch_networks import NETWORKS as CLASSIFIERS
from torch_networks import PARTS, trained

from jcw_core.errors import FormatError
from jcw_core.formats.torch_import import from_module
from jcw_core.network.architecture import Architecture
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.network.shrink import shrink, shrink_weights
from jcw_core.space.space import prunable_layers
from jcw_core.space.whole import fixed_layers, unpruned_layers
from jcw_core.training.module import Slimmable

SHAPE = (1, 3, 32, 32)
NETWORKS = {**CLASSIFIERS, **CUT, **DETECTORS}


@cache
def example(seed: int = 0) -> Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))


@cache
def imported(name: str) -> tuple[nn.Module, Model]:
    torch.manual_seed(0)
    module = trained(NETWORKS[name]())
    return module, from_module(module, example())


def outputs(model: Model, image: Tensor) -> np.ndarray:
    found = run(model.network, model.weights, image[0].double().numpy())
    return found[model.network.output.name].reshape(-1)


def expected(module: nn.Module, image: Tensor) -> np.ndarray:
    with torch.no_grad():
        return flat(copy.deepcopy(module).double()(image.double())).numpy()


def architectures(network: Network, rng: np.random.Generator) -> Architecture:
    groups = couple(network).groups.values()
    return Architecture(
        {g.name: g.step * int(rng.integers(1, g.channels // g.step + 1)) for g in groups if not g.fixed}, {}
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_those_of_the_module(name: str) -> None:
    """On another image than the one that it was imported with, in float64."""
    module, model = imported(name)
    within = 1e-5 if name == "fpn" else 1e-9  # the inverse of its standard deviation is rounded to float32
    np.testing.assert_allclose(
        outputs(model, example(1)), expected(module, example(1)), rtol=within, atol=within
    )


# A transposed convolution's weights lie otherwise in the network, under the same name; a head that is called three times
# is three layers.
@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - {"unet", "decoder", "fpn", "resnet20"}))
def test_weights_bear_the_names_of_the_state_dict(name: str) -> None:
    module, model = imported(name)
    state = {k: v for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")}
    assert model.weights.keys() == state.keys()
    for key, array in model.weights.items():
        np.testing.assert_array_equal(array, state[key])
    Slimmable(model.network, np.random.default_rng(0)).load_state_dict(module.state_dict())


@pytest.mark.parametrize("name", NETWORKS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=2)
def test_a_cut_network_computes_what_the_masked_one_does(name: str, seed: int) -> None:
    """Cutting channels is the same as their being zero, wherever they are read; every width is the one asked for."""
    _, model = imported(name)
    rng = np.random.default_rng(seed)
    wanted = architectures(model.network, rng)
    small = Model(shrink(model.network, wanted), shrink_weights(model.network, wanted, model.weights))
    coupling = couple(model.network)
    for group, width in wanted.widths.items():
        whole = coupling.groups[group]
        for layer in whole.layers:
            (segment, *others) = coupling.layout[layer]
            if not others:
                assert small.network.shapes[layer][0] == width * segment.repeat
    masks = {}
    for node in model.network:
        keep = np.zeros(model.network.shapes[node.name][0])
        keep[coupling.kept(node.name, wanted.widths)] = 1
        masks[node.name] = keep
    masked = run(model.network, model.weights, example()[0].double().numpy(), masks)
    np.testing.assert_allclose(
        outputs(small, example()), masked[model.network.output.name].reshape(-1), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - PARTS.keys() - DETECTORS.keys()))
def test_all_channels_of_the_usual_networks_can_be_cut(name: str) -> None:
    """But those of the output; grouped convolutions are cut by whole groups."""
    _, model = imported(name)
    reasons = {group.reason for group in couple(model.network).groups.values()}
    assert reasons == {"", "is tied to the network's input", "makes the network's output"}


def test_grouped_convolutions_are_cut_by_whole_groups() -> None:
    steps = {
        name: {g.step for g in couple(imported(name)[1].network).groups.values() if not g.fixed}
        for name in ("regnet_y_400mf", "resnext")
    }
    assert steps == {"regnet_y_400mf": {1, 8}, "resnext": {1, 2, 3}}


def test_the_levels_of_a_detector_share_its_head() -> None:
    module, model = imported("fpn")
    network, image = model.network, example(1)
    heads = [layer for layer in network.shared if layer.startswith(("tower", "classes", "boxes"))]
    assert len(heads) == 9
    assert set(heads) <= set(fixed_layers(network))
    assert set(heads).isdisjoint(prunable_layers(network))
    # Three maps of classes before three of boxes, at strides of 4, 8 and 16.
    sizes = [n * side**2 for n in (6, 4) for side in (8, 4, 2)]
    assert network.num_classes == sum(sizes)
    with torch.no_grad():
        first = module(image)["boxes"][0]
    found = outputs(model, image)[sum(sizes[:3]) : sum(sizes[:4])]
    np.testing.assert_allclose(found, first.flatten(), atol=1e-5)


@pytest.mark.parametrize("made", [(), [None], {"a": 3}])
def test_outputs_that_are_no_tensors(made: object) -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> object:
            return made

    with pytest.raises(FormatError, match=r"^Odd: "):
        from_module(Odd(), example())


class Numbers(nn.Module):
    """Sums, differences, products and quotients with numbers and with constants of one value per channel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("each", torch.tensor([0.5, -2.0, 3.0, 0.1]).view(4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv((2 * x - 1) / 0.3 + 0.25)
        return (1 - x) * self.each + x / self.each.view(1, 4, 1, 1) - self.each - torch.relu(x)


class Pixels(nn.Module):
    """Planes that are padded or thinned out where no window reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(12, 4, 3), nn.Conv2d(8, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[:, :, 1::2, 1::2]]
        x = F.pad(self.conv(torch.cat(parts, 1)), (1, 2, 0, 1))
        return self.last(torch.cat((x, F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 1)), 1))


def test_padded_and_thinned_planes() -> None:
    module = Pixels()
    model = from_module(module, example())
    np.testing.assert_allclose(outputs(model, example(1)), expected(module, example(1)), rtol=1e-5, atol=1e-5)
    assert set(prunable_layers(model.network)) <= {"conv", "last"}


def test_padded_planes_are_an_output() -> None:
    class Padding(nn.Module):
        def __init__(self, fill: float) -> None:
            super().__init__()
            self.conv, self.fill = nn.Conv2d(3, 4, 3), fill

        def forward(self, x: Tensor) -> Tensor:
            return F.pad(self.conv(x), (1, 0, 2, 1, 1, 2) if self.fill == 0 else (1, 1), value=self.fill)

    module = Padding(0)
    np.testing.assert_allclose(
        outputs(from_module(module, example()), example(1)),
        expected(module, example(1)),
        rtol=1e-5,
        atol=1e-5,
    )
    with pytest.raises(FormatError, match="an output reads planes padded with 1; only 0"):
        from_module(Padding(1), example())


def test_numbers() -> None:
    module = Numbers()
    model = from_module(module, example())
    np.testing.assert_allclose(outputs(model, example(1)), expected(module, example(1)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda x, row: x - x.flip(1), "flip"),
        (lambda x, row: x / (x + 1), "divides by a value that depends on the image"),
        (lambda x, row: x / 0.0, "divides by zero"),
        (lambda x, row: x * row, r"a constant of shape \(32,\)"),
        (lambda x, row: torch.relu(F.pad(x, (1, 1), value=1.0)), "padded with 1; only 0 has a place outside"),
        (
            lambda x, row: F.pad(x, (0, 0, 0, 0, 1, 1), value=1.0),
            r"padding by \[0, 0, 0, 0, 1, 1\] has no place",
        ),
        (lambda x, row: F.pad(x.mean((2, 3)), (1, 0)), r"padding by \[1, 0\] has no place"),
        (lambda x, row: x[:, :, 3::2], "pixels 3 to .* of axis 2 in steps of 2 have no place"),
        (lambda x, row: x[..., :20:2], "pixels 0 to 20 of axis 3 in steps of 2 have no place"),
        (
            lambda x, row: F.interpolate(x, scale_factor=0.3),
            r"from \(32, 32\) to \(9, 9\) by 0.3, which is not",
        ),
        (
            lambda x, row: F.interpolate(x, 9, mode="nearest-exact"),
            "nearest-exact by other than whole factors",
        ),
    ],
)
def test_arithmetic_that_has_no_place(compute: Callable[[Tensor, Tensor], Tensor], message: str) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("row", torch.ones(32))

        def forward(self, x: Tensor) -> Tensor:
            return compute(x, self.row)

    with pytest.raises(FormatError, match=message):
        from_module(Odd(), example())


@pytest.mark.parametrize("name", NETWORKS)
def test_copies(name: str) -> None:
    module, model = imported(name)
    again = from_module(copy.deepcopy(module), example())
    for other in (again, copy.deepcopy(model)):
        assert other.network == model.network
        assert all((other.weights[key] == array).all() for key, array in model.weights.items())
        assert not any(np.shares_memory(other.weights[key], array) for key, array in model.weights.items())
    slimmable = Slimmable(model.network, np.random.default_rng(0)).eval()
    with torch.no_grad():
        assert torch.equal(copy.deepcopy(slimmable)(example()), slimmable(example()))


def test_the_module_is_left_as_it_was() -> None:
    module = NETWORKS["mobilenet_v2"]()
    module.features[0].eval()
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    model = from_module(module, example())
    assert module.training
    assert not module.features[0].training
    for array in model.weights.values():
        np.asarray(array)[...] = 7
    assert all((tensor == before[key]).all() for key, tensor in module.state_dict().items())


class Twice(nn.Module):
    """One convolution called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv, self.bn = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(self.bn(self.conv(x)))
        x = F.relu(self.bn(self.conv(x)))
        return self.fc(x.mean((2, 3)))


class Tied(nn.Module):
    """Two modules with one weight, and two linear layers with another."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.left, self.right = nn.Conv2d(8, 6, 1), nn.Conv2d(8, 6, 1)
        self.right.weight = self.left.weight
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight, self.second.bias = self.first.weight, self.first.bias
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = (F.relu(self.left(x)) + torch.sigmoid(self.right(x))).mean((2, 3))
        return self.head(F.relu(self.second(F.relu(self.first(x)))))


@pytest.mark.parametrize(
    ("build", "pairs"),
    [(Twice, [("conv", "conv_2")]), (Tied, [("left", "right"), ("first", "second")])],
)
def test_layers_that_share_weights_stay_whole(build: type[nn.Module], pairs: list[tuple[str, str]]) -> None:
    module = trained(build())
    model = from_module(module, example())
    network = model.network
    np.testing.assert_allclose(outputs(model, example(1)), expected(module, example(1)), rtol=1e-9, atol=1e-9)
    layers = {layer for pair in pairs for layer in pair}
    assert dict(network.shared) == {a: b for pair in pairs for a, b in (pair, pair[::-1])}
    assert layers.isdisjoint(prunable_layers(network))
    for one, other in pairs:
        assert unpruned_layers(network)[one] == f"shares its weights with {other!r}"
    assert layers <= set(fixed_layers(network))
    groups = {g.name: g for g in couple(network).groups.values()}
    # What feeds them is their weights' other axis.
    assert "which shares its weights" in groups["stem"].reason
    assert Network.from_json(network.to_json()) == network


def test_networks_without_shared_weights_look_as_before() -> None:
    _, model = imported("resnet18")
    assert "shares" not in model.network.to_json()


def test_every_obstacle_is_told_at_once() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.norm = nn.GroupNorm(2, 4)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cumsum(self.norm(torch.erf(self.conv(x))), 1)

    with pytest.raises(
        FormatError, match=r"^Odd: erf: erf has no place.*; cumsum|^Odd: erf: erf has no place"
    ) as caught:
        from_module(Odd(), example())
    assert "reads" not in str(caught.value)


def test_control_flow_on_data_is_one_line() -> None:
    class Choosy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(FormatError, match=r"^Choosy: torch.export cannot read this module \(.*\)$") as caught:
        from_module(Choosy(), example())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_named(value: float) -> None:
    module = trained(NETWORKS["resnet18"]())
    module.layer2[0].conv2.weight.data[3, 1, 0, 0] = value
    with pytest.raises(FormatError, match=r"layer2.0.conv2.weight holds NaN or infinity"):
        from_module(module, example())


@pytest.mark.parametrize("shape", [(3, 32, 32), (2, 3, 32, 32), (1, 3, 32)])
def test_examples_of_another_form(shape: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match=r"expected float32 \(1, channels, height, width\)"):
        from_module(NETWORKS["resnet18"](), torch.zeros(shape))

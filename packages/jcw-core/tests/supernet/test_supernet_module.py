import numpy as np
import pytest
import torch
from supernet_samples import Blobs
from torch import nn

from jcw_core.backbones.mobilenet_v2 import mobilenet_v2
from jcw_core.backbones.resnet import resnet18
from jcw_core.datasets.split import normalise
from jcw_core.errors import DataError, FormatError, NetworkError
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.shrink import shrink, shrink_weights
from jcw_core.network.weight_groups import density_mask as reference_mask
from jcw_core.space.space import SearchSpace, prunable_layers
from jcw_core.supernet.calibration import calibrate
from jcw_core.training.batches import FixedImages
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.masks import density_mask
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic


@pytest.mark.parametrize("shape", [(8, 3, 3, 3), (10, 4, 1, 1), (3, 5), (13, 7, 3, 3), (4, 1, 1, 1)])
@pytest.mark.parametrize("density", [0.01, 0.1, 0.37, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("order", [1, 2])
def test_masks_equal_those_of_the_definition(shape: tuple[int, ...], density: float, order: int) -> None:
    weight = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    ours = density_mask(torch.from_numpy(weight), density, order).numpy()
    assert np.array_equal(ours, reference_mask(weight, density, order))


@pytest.mark.parametrize("values", [1, 2, 3])
@pytest.mark.parametrize("order", [1, 2])
def test_of_tied_groups_the_first_are_kept(values: int, order: int) -> None:
    """As many of them as the density leaves: a pruned layer has thousands of zeros."""
    weight = np.random.default_rng(7).integers(0, values, (10, 6, 3, 3)).astype(np.float32)
    for density in (0.0, 0.01, 0.25, 0.333, 0.9, 1.0):
        ours = density_mask(torch.from_numpy(weight), density, order).numpy()
        assert np.array_equal(ours, reference_mask(weight, density, order))


def test_weights_that_are_no_numbers_have_a_mask() -> None:
    """Training that diverged is told of by its own check."""
    weight = torch.full((8, 4, 3, 3), torch.nan)
    assert density_mask(weight, 0.5, 1).shape == weight.shape


def shrunk(module: Slimmable, architecture: Architecture) -> tuple[Network, dict[str, np.ndarray]]:
    """The sub-network by the torch-free path: shrink, then mask."""
    weights = shrink_weights(
        module.network, architecture, {k: v.numpy() for k, v in module.state_dict().items()}
    )
    for layer, density in architecture.densities.items():
        weight = weights[f"{layer}.weight"]
        weights[f"{layer}.weight"] = weight * reference_mask(weight, density, order=1)
    return shrink(module.network, architecture), weights


def test_a_subnetwork_computes_what_the_shrunk_network_does(network: Network, space: SearchSpace) -> None:
    rng = np.random.default_rng(3)
    module = Slimmable(network, rng).double()
    images = torch.from_numpy(rng.standard_normal((4, 3, 8, 8)))
    for row in space.sample(12, rng):
        architecture = space.architecture(row)
        small, weights = shrunk(module, architecture)
        whole = Slimmable(small, rng).double()
        whole.load_weights(weights)
        assert whole.state_dict().keys() == weights.keys()
        expected = execute(small, whole.subnetwork(), images, BatchNorm())
        torch.testing.assert_close(module.train()(images, architecture), expected, rtol=1e-12, atol=1e-12)


def test_gradients_reach_the_weights_that_take_part_and_no_others(
    network: Network, space: SearchSpace
) -> None:
    rng = np.random.default_rng(4)
    module = Slimmable(network, rng)
    row = space.low + 0.3 * (space.high - space.low)
    architecture = space.architecture(space.decode(space.encode(row[None]))[0])
    module(torch.randn(6, 3, 8, 8), architecture).square().sum().backward()
    _, weights = shrunk(module, architecture)
    for layer in prunable_layers(network):
        gradient = module.get_parameter(f"{layer}.weight").grad
        assert gradient is not None
        assert 0 < gradient.count_nonzero() <= np.count_nonzero(weights[f"{layer}.weight"])


def test_whole_architecture_is_the_network_itself(network: Network, space: SearchSpace) -> None:
    module = Slimmable(network, np.random.default_rng(0))
    images = torch.randn(4, 3, 8, 8)
    whole = module(images, space.architecture(space.maximum))
    assert torch.equal(whole, module(images))


def as_torch(network: Network) -> dict[str, nn.BatchNorm2d]:
    """torch's own batch norms with a cumulative average."""
    return {
        n.name: nn.BatchNorm2d(
            network.shapes[n.name][0], eps=float(n.attributes["eps"]), momentum=None
        ).double()
        for n in network
        if n.op == "batch_norm"
    }


@pytest.mark.parametrize("sizes", [(8, 8, 8), (20,)])
def test_calibration_is_torchs_cumulative_average(
    network: Network, space: SearchSpace, sizes: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(5)
    module = Slimmable(network, rng).double()
    architecture = space.architecture(space.sample(1, rng)[0])
    small, weights = shrunk(module, architecture)
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    batches = [torch.from_numpy(rng.standard_normal((size, 3, 8, 8))) for size in sizes]
    norms = as_torch(small)

    class Recording(BatchNorm):
        def __call__(self, node, tensors, value):  # type: ignore[no-untyped-def]
            norms[node.name].weight.data = tensors[f"{node.name}.weight"]
            norms[node.name].bias.data = tensors[f"{node.name}.bias"]
            return norms[node.name](value)

    for batch in batches:
        execute(small, tensors, batch, Recording())
    found = calibrate(network, module.subnetwork(architecture), batches)
    for name, norm in norms.items():
        torch.testing.assert_close(found[f"{name}.running_mean"], norm.running_mean)
        torch.testing.assert_close(found[f"{name}.running_var"], norm.running_var)


def test_a_smaller_last_batch_counts_by_its_images() -> None:
    net = NetworkBuilder("norm", (2, 4, 4))
    net.batch_norm("bn")
    net.add("flatten", "flatten")
    network = net.build()
    images = torch.randn(13, 2, 4, 4, dtype=torch.float64)
    tensors = Slimmable(network, np.random.default_rng(0)).double().subnetwork()
    found = calibrate(network, tensors, images.split(5))
    torch.testing.assert_close(found["bn.running_mean"], images.mean((0, 2, 3)))


def pooled() -> Network:
    net = NetworkBuilder("pooled", (3, 8, 8))
    net.add("pool", "global_avg_pool")
    net.batch_norm("bn")
    net.add("flatten", "flatten")
    return net.build()


def test_calibration_on_one_image_more_than_a_batch() -> None:
    batches = FixedImages(Blobs(129), np.arange(129), 128, Arithmetic())
    tensors = Slimmable(pooled(), np.random.default_rng(0)).subnetwork()
    found = calibrate(pooled(), tensors, (images for images, _ in batches))
    pixels = torch.from_numpy(normalise(Blobs(129).images(np.arange(129)), Blobs(129)))
    torch.testing.assert_close(found["bn.running_mean"], pixels.mean((0, 2, 3)))


def test_one_image_has_no_variance() -> None:
    module = Slimmable(pooled(), np.random.default_rng(0))
    with pytest.raises(DataError, match=r"'bn' works on 1 x 1 planes and got a batch of one image"):
        calibrate(pooled(), module.subnetwork(), [torch.randn(1, 3, 8, 8)])
    with pytest.raises(DataError, match="'bn'"):
        module.train()(torch.randn(1, 3, 8, 8))
    module.eval()(torch.randn(1, 3, 8, 8))


def test_calibration_leaves_the_supernet_alone(network: Network, space: SearchSpace) -> None:
    rng = np.random.default_rng(6)
    module = Slimmable(network, rng).train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    for row in space.sample(3, rng):
        architecture = space.architecture(row)
        module(torch.randn(4, 3, 8, 8), architecture)
        calibrate(network, module.subnetwork(architecture), [torch.randn(4, 3, 8, 8)])
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


@pytest.mark.parametrize("build", [resnet18, mobilenet_v2])
def test_torchs_counters_are_passed_over(build) -> None:  # type: ignore[no-untyped-def]
    network = build(width=0.25, input_size=32, num_classes=10)
    module = Slimmable(network, np.random.default_rng(0))
    state = {
        name: torch.randn(shape)
        for name, shape in {**network.parameter_shapes, **network.buffer_shapes}.items()
    }
    counters = {f"{n.name}.num_batches_tracked": torch.tensor(3) for n in network if n.op == "batch_norm"}
    assert counters
    module.load_state_dict(state | counters)
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in state.items())


def test_weights_of_another_network_are_refused(network: Network) -> None:
    module = Slimmable(network, np.random.default_rng(0))
    with pytest.raises(FormatError, match=r"no place for 'nowhere\.weight'"):
        module.load_weights({"nowhere.weight": np.zeros(1, np.float32)})
    with pytest.raises(FormatError, match=r"conv1\.weight is"):
        module.load_weights({"conv1.weight": np.zeros((1, 1), np.float32)})


def test_a_node_that_torch_cannot_name_is_reported() -> None:
    net = NetworkBuilder("odd", (3, 8, 8))
    net.conv("forward", 4, 3)
    with pytest.raises(NetworkError, match="'forward'"):
        Slimmable(net.build(), np.random.default_rng(0))


def test_a_subnetwork_cannot_be_evaluated_on_foreign_statistics(network: Network, space: SearchSpace) -> None:
    module = Slimmable(network, np.random.default_rng(0)).eval()
    with pytest.raises(ValueError, match="calibrate"):
        module(torch.randn(2, 3, 8, 8), space.architecture(space.low))

"""Learning from the dense network: the loss against plain torch, and runs that have a teacher."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from retrain_samples import MIDDLE, NARROW, SMALL, WEIGHTS, Stripes, network, open_run, trained
from safetensors.numpy import save_file
from supernet_samples import BUILDERS
from test_retrain_stage import in_a_process, outputs
from torch import Tensor

from jcw_core.datasets.split import normalise
from jcw_core.errors import RecipeError
from jcw_core.formats.safetensors_file import load_model
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.node import Node
from jcw_core.network.shrink import shrink, shrink_weights
from jcw_core.recipe.recipe import load_recipe
from jcw_core.run.context import Context
from jcw_core.run.pipeline import run
from jcw_core.run.records import BASELINE, MODELS, ChosenModel
from jcw_core.space.space import SearchSpace
from jcw_core.training.execution import BatchNorm, execute
from jcw_core.training.module import Slimmable
from jcw_retrain.distillation import Distillation, Teacher, compared_nodes, divergence, relative_error
from jcw_retrain.jobs import weights_of
from jcw_retrain.options import DistillationOptions

FEATURES = DistillationOptions(labels=0, logits=0, features=1, frozen_batch_norm=True)
WHOLE = Architecture({}, {})


def random_tensors(net: Network, rng: np.random.Generator) -> dict[str, Tensor]:
    shapes = {**net.parameter_shapes, **net.buffer_shapes}
    drawn = {name: rng.normal(0.1, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    drawn |= {name: np.abs(drawn[name]) + 0.5 for name in drawn if name.endswith("running_var")}
    return {name: torch.from_numpy(array) for name, array in drawn.items()}


def student(net: Network, tensors: dict[str, Tensor], architecture: Architecture) -> Slimmable:
    """The network cut down, with the dense one's weights."""
    module = Slimmable(shrink(net, architecture), np.random.default_rng(0))
    module.load_weights(shrink_weights(net, architecture, {n: t.numpy() for n, t in tensors.items()}))
    return module


def by_hand(tensors: dict[str, np.ndarray], images: Tensor) -> tuple[list[Tensor], Tensor]:
    """What the three convolutions of ``network()`` and all that fuses into them put out, and logits, in float64."""
    weights = {name: torch.from_numpy(array).double() for name, array in tensors.items()}

    def layer(number: int, value: Tensor) -> Tensor:
        weight = weights[f"conv{number}.weight"]
        value = F.conv2d(value, weight, padding=weight.shape[-1] // 2)
        mean, variance, scale, shift = (
            weights[f"bn{number}.{key}"][:, None, None]
            for key in ("running_mean", "running_var", "weight", "bias")
        )
        return (value - mean) / (variance + 1e-5).sqrt() * scale + shift

    first = layer(1, images.double()).relu()
    second = layer(2, first).relu()
    third = layer(3, second) + first
    return [first, second, third], third.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


@pytest.mark.parametrize("architecture", [SMALL, NARROW, MIDDLE, WHOLE])
@pytest.mark.parametrize(
    ("labels", "logits", "features", "temperature", "smoothing"),
    [(0, 1, 0, 1, 0), (0, 1, 0, 4, 0), (0, 0, 1, 4, 0), (1, 1, 0, 2, 0.1), (0.3, 0.5, 0.2, 0.5, 0.2)],
)
def test_the_loss_is_what_its_formula_says(
    architecture: Architecture,
    labels: float,
    logits: float,
    features: float,
    temperature: float,
    smoothing: float,
) -> None:
    net, rng, data = network(), np.random.default_rng(3), Stripes(12)
    tensors = random_tensors(net, rng)
    module = student(net, random_tensors(net, rng), architecture)
    images = torch.from_numpy(normalise(data.images(np.arange(12)), data))
    targets = torch.from_numpy(data.labels)
    options = DistillationOptions(labels, logits, features, temperature, frozen_batch_norm=True)
    found = Distillation(Teacher(net, tensors), architecture, options, smoothing)(module, images, targets)

    wanted, theirs = by_hand({n: t.numpy() for n, t in tensors.items()}, images)
    values, ours = by_hand(module.weights(), images)
    kept = [wanted[n][:, : values[n].shape[1]] for n in range(3)]
    errors = [float(((v - w) ** 2).sum() / (w**2).sum()) for v, w in zip(values, kept, strict=True)]
    p, q = (np.exp(v.numpy() / temperature) for v in (theirs, ours))
    p, q = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
    kl = temperature**2 * (p * np.log(p / q)).sum(1).mean()
    once = np.exp(ours.numpy())
    target = (1 - smoothing) * np.eye(3)[data.labels] + smoothing / 3
    entropy = -(target * np.log(once / once.sum(1, keepdims=True))).sum(1).mean()
    expected = labels * entropy + logits * kl + features * np.mean(errors)
    assert found.item() == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_nothing_is_lost_by_the_dense_network_itself(build: Callable[[], Network]) -> None:
    net, rng = build(), np.random.default_rng(1)
    tensors = random_tensors(net, rng)
    module = student(net, tensors, WHOLE)
    images = torch.from_numpy(rng.normal(size=(4, *net.input_shape)).astype(np.float32))
    options = replace(FEATURES, logits=1.0)
    loss = Distillation(Teacher(net, tensors), WHOLE, options)(
        module, images, torch.zeros(4, dtype=torch.long)
    )
    assert loss.item() == pytest.approx(0, abs=1e-6)
    loss.backward()
    assert all(p.grad is None or p.grad.abs().max() < 1e-5 for p in module.parameters())


@pytest.mark.parametrize("build", [*BUILDERS.values(), network], ids=[*BUILDERS, "small"])
def test_what_is_compared_is_not_written_over(build: Callable[[], Network]) -> None:
    """Activations replace their inputs; a feature that one of them replaced would be compared as another."""
    net, rng = build(), np.random.default_rng(1)
    tensors, nodes = random_tensors(net, rng), compared_nodes(net)
    kept, copies = {}, {}

    def watch(node: Node, value: Tensor) -> None:
        if node.name in nodes:
            kept[node.name], copies[node.name] = value, value.clone()

    images = torch.from_numpy(rng.normal(size=(4, *net.input_shape)).astype(np.float32))
    execute(net, tensors, images, BatchNorm(), watch)
    assert kept.keys() == set(nodes)
    assert len(nodes) >= 3
    for name in nodes:
        assert torch.equal(kept[name], copies[name])


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_features_of_any_architecture_are_compared_at_the_channels_that_it_keeps(
    build: Callable[[], Network],
) -> None:
    """A model whose weights are the dense one's, and whose cut channels nothing reads, loses nothing either."""
    net, rng = build(), np.random.default_rng(2)
    images = torch.from_numpy(rng.normal(size=(4, *net.input_shape)).astype(np.float32))
    space = SearchSpace.of(net)
    for row in space.sample(4, rng):
        architecture = Architecture(space.architecture(row).widths, {})
        # Masked to the architecture: channels that are cut put out zeros, whatever would read them.
        tensors = random_tensors(net, rng)
        whole = {name: tensor.numpy() for name, tensor in tensors.items()}
        small = shrink_weights(net, architecture, whole)
        masked = {name: np.zeros_like(array) for name, array in whole.items()}
        for name, array in masked.items():
            if name.endswith("running_var"):
                array += 1
        place(net, architecture, small, masked)
        teacher = Teacher(net, {name: torch.from_numpy(array) for name, array in masked.items()})
        module = student(net, tensors, architecture)
        if net.name == "squeeze-excite":
            continue  # a gate of zeros is a half
        loss = Distillation(teacher, architecture, FEATURES)(module, images, torch.zeros(4, dtype=torch.long))
        assert loss.item() == pytest.approx(0, abs=1e-6)


def place(
    net: Network, architecture: Architecture, small: dict[str, np.ndarray], into: dict[str, np.ndarray]
) -> None:
    """Put the weights of the small network where they stood in the whole one."""
    where = shrink_weights(
        net, architecture, {n: np.arange(a.size, dtype=np.float64).reshape(a.shape) for n, a in into.items()}
    )
    for name, index in where.items():
        into[name].reshape(-1)[index.astype(np.int64)] = small[name]


def test_divergence_of_equal_logits_is_none_and_its_gradient_keeps_its_size() -> None:
    rng = np.random.default_rng(0)
    wanted = torch.from_numpy(rng.normal(size=(8, 5)).astype(np.float32))
    assert divergence(wanted + 3, wanted, 2.0).item() == pytest.approx(0, abs=1e-6)
    sizes = []
    for temperature in (20.0, 200.0):
        logits = torch.from_numpy(rng.normal(size=(8, 5)).astype(np.float32)).requires_grad_()
        divergence(logits, wanted, temperature).backward()
        # Hinton et al.: at high temperatures the gradient is (z - v) / N of centred logits.
        centred = [v.detach() - v.detach().mean(1, keepdim=True) for v in (logits, wanted)]
        expected = (centred[0] - centred[1]) / 5 / 8
        sizes.append(float((logits.grad - expected).norm() / expected.norm()))
    assert sizes[1] < sizes[0] < 0.2
    assert sizes[1] < 0.02


def test_an_error_is_a_share_of_the_energy() -> None:
    wanted = torch.tensor([[3.0, 4.0]])
    assert relative_error(torch.zeros(1, 2), wanted).item() == 1
    assert relative_error(1.1 * wanted, wanted).item() == pytest.approx(0.01)
    assert relative_error(torch.zeros(1, 2), torch.zeros(1, 2)).item() == 0


def teacher_run(folder: Path, retrain: str) -> Context:
    folder.mkdir(exist_ok=True)
    save_file(trained(), folder / WEIGHTS)
    return open_run(folder, f'teacher = "dense"\n{retrain}')[0]


UNLABELLED = "distillation = { labels = 0, logits = 1, features = 1, frozen_batch_norm = true }"


@pytest.mark.parametrize(("init", "distillation"), [("pretrained", ""), ("supernet", UNLABELLED)])
def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path, init: str, distillation: str) -> None:
    retrain = f'init = "{init}"\n{distillation}\nhold_out = true'
    run(teacher_run(tmp_path / "whole", retrain), until="export")
    broken = tmp_path / "broken"
    context = teacher_run(broken, retrain)
    before = 5 if init == "supernet" else 0  # layers of the database
    words = f'teacher = "dense"\n{retrain}'
    assert in_a_process(broken, words, threads=1, kill_after=before + 11) == -signal.SIGKILL
    run(context, until="export")
    assert outputs(tmp_path / "whole") == outputs(broken)


def test_models_learn_from_the_baseline_that_is_trained_before_them(tmp_path: Path) -> None:
    taught = 'teacher = "baseline"\ndistillation = { labels = 0, logits = 1 }'
    runs = {"alone": open_run(tmp_path / "alone")[0], "taught": open_run(tmp_path / "taught", taught)[0]}
    images = torch.from_numpy(normalise(Stripes(160).images(np.arange(160)), Stripes(160)))
    logits = {}
    for name, context in runs.items():
        run(context, until="retrain")
        for model in (BASELINE, "m1", "m2", "m3"):
            _, found = by_hand(dict(load_model(context.path(weights_of(model))).weights), images)
            logits[name, model] = found - found.mean(1, keepdim=True)
    teacher = logits["alone", BASELINE]
    assert torch.equal(teacher, logits["taught", BASELINE])
    for model in ("m1", "m2", "m3"):
        near, far = (float((logits[name, model] - teacher).norm()) for name in ("taught", "alone"))
        assert near < 0.9 * far, (model, near, far)


def test_a_killed_run_with_a_baseline_for_a_teacher_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, broken, taught = tmp_path / "whole", tmp_path / "broken", 'teacher = "baseline"'
    run(open_run(whole, taught, threads=2)[0], until="retrain")
    # Within the baseline, which has 7 epochs, and within those that learn from it.
    for kill_after in (4, 10):
        assert in_a_process(broken, taught, threads=2, kill_after=kill_after) == -signal.SIGKILL
    run(open_run(broken, taught, threads=2)[0], until="retrain")
    assert outputs(whole) == outputs(broken)


def test_no_class_is_looked_at_where_labels_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weights(folder: str, distillation: str) -> dict[str, bytes]:
        run(teacher_run(tmp_path / folder, f'init = "pretrained"\n{distillation}'), until="retrain")
        return {name: data for name, data in outputs(tmp_path / folder).items() if "weights" in name}

    without, mixed = weights("a", UNLABELLED), weights("b", "")
    monkeypatch.setattr(Stripes, "labels", property(lambda self: (np.arange(self.count) * 2 + 1) % 3))
    assert weights("c", UNLABELLED) == without
    assert weights("d", "") != mixed


def test_distillation_brings_a_pruned_network_nearer_to_the_dense_one(tmp_path: Path) -> None:
    phases = "pretrain = { epochs = 0 }\nadmm = { epochs = 0 }\nfinetune = { epochs = 20, batch_size = 16, lr = 0.02 }"
    distances = {}
    for name, epochs in (("before", 0), ("after", 20)):
        context = teacher_run(tmp_path / name, f'init = "supernet"\n{UNLABELLED}')
        text = (tmp_path / name / "recipe.toml").read_text()
        start, end = text.index("pretrain ="), text.index("[export]")
        text = text[:start] + phases.replace("epochs = 20", f"epochs = {epochs}") + "\n" + text[end:]
        (tmp_path / name / "recipe.toml").write_text(text)
        recipe = load_recipe(tmp_path / name / "recipe.toml", context.registry)
        context = Context(recipe, context.registry, context.directory)
        run(context, until="retrain")
        distances[name] = {m.id: distance(context, m) for m in ChosenModel.read_all(context.path(MODELS))}
        for chosen in ChosenModel.read_all(context.path(MODELS)):
            model = load_model(context.path(chosen.weights))
            for layer, density in chosen.architecture.densities.items():
                zeros = float((model.weights[f"{layer}.weight"] == 0).mean())
                assert density == 1 or zeros >= 1 - density - 0.1
    # The weights that training begins with are fitted layer by layer, so there is little to regain.
    for name in ("m1", "m2", "m3"):
        assert distances["after"][name] < 0.95 * distances["before"][name], distances


def distance(context: Context, chosen: ChosenModel) -> float:
    """Of a model's logits from the dense network's, as a share of how these vary, by torch alone."""
    model, data = load_model(context.path(chosen.weights)), Stripes(160)
    images = torch.from_numpy(normalise(data.images(np.arange(160)), data))
    _, dense = by_hand(trained(), images)
    _, logits = by_hand(dict(model.weights), images)
    logits, dense = (value - value.mean(0) for value in (logits, dense))
    return float((logits - dense).norm() / dense.norm())


@pytest.mark.parametrize(
    ("retrain", "message"),
    [
        (
            'teacher = "dense"',
            r"\[retrain\] teacher: 'dense' is the network as it was trained before; give network",
        ),
        ("distillation = { logits = 1.0 }", "distillation without a teacher would do nothing"),
        ('teacher = "dense"\ndistillation = { logits = 0 }', "logits and features are 0"),
        ('teacher = "dense"\ndistillation = { temperature = 0 }', "temperature: 0.0 is impossible"),
        ('teacher = "bert"', "'bert' is not one of 'dense', 'baseline'"),
    ],
)
def test_a_teacher_that_cannot_be_had_is_refused_before_any_work(
    tmp_path: Path, retrain: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        run(open_run(tmp_path, retrain)[0], until="retrain")
    assert not list((tmp_path).glob("run/front.json"))

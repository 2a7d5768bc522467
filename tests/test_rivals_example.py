"""The example package ``jcw-rivals``: methods against brute force and their own definitions, and the stage in a run."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import JcwError, RecipeError
from jcw_core.hookspecs import hookimpl
from jcw_core.network.channel_groups import couple
from jcw_core.network.weight_groups import kept_groups
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.run.records import Front
from jcw_core.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "jcw-rivals"))
from jcw_rivals import RIVALS, AutoSlim, GradualPruning, Setting, UniformSandwich, plugin  # noqa: E402
from jcw_rivals.halp import knapsack  # noqa: E402
from jcw_rivals.saliency import saliencies  # noqa: E402

from jcw_core.training.module import Slimmable  # noqa: E402


def setting_of(family=RESNET18, width=0.25, seed=0):
    """Latency is the multiply-accumulates that are kept; an error grows with what each variable loses."""
    network = family.build(num_classes=10, width=width, input_size=32)
    space = SearchSpace.of(network, defaults=family.bounds)
    weights = np.random.default_rng(seed).uniform(0.1, 1, space.dimensions)
    layers = [node for node in network if node.op == "conv2d"]

    def latency(rows):
        found = np.zeros(len(rows))
        for node in layers:
            share = space.channels(rows, node.name) / network.shapes[node.name][0]
            if not network.is_depthwise(node) and network[node.inputs[0]].op != "input":
                share = share * space.channels(rows, node.inputs[0]) / network.shapes[node.inputs[0]][0]
            found += network.node_macs(node) / 1e6 * share * space.density(rows, node.name)
        return found

    def error(rows):
        return (1 - space.encode(rows)) ** 2 @ weights

    rng = np.random.default_rng(seed)
    worth = {name: rng.uniform(size=group.channels) for name, group in couple(network).groups.items()}
    return Setting(space, latency, error, lambda: worth)


@pytest.mark.parametrize("family", [RESNET18, MOBILENET_V2], ids=lambda family: family.name)
@pytest.mark.parametrize("name", RIVALS)
def test_choices_are_within_their_budgets_and_grow_with_them(name, family):
    setting = setting_of(family)
    dense = setting.latency_ms(setting.space.maximum[None])[0]
    budgets = [0.5 * dense, 0.8 * dense, dense, 0.001 * dense]
    *rows, none = RIVALS[name].choose(setting, budgets)
    assert none is None
    latency = setting.latency_ms(np.stack(rows))
    assert (latency <= np.array(budgets[:3]) * (1 + 1e-9)).all()
    assert (latency >= 0.7 * np.array(budgets[:3])).all()
    for row in rows:
        np.testing.assert_array_equal(setting.space.decode(setting.space.encode(row[None]))[0], row)
        whole = row == setting.space.maximum
        kind = ~setting.space.is_width if name != "fast-sparse" else setting.space.is_width
        assert whole[kind].all(), "one of the two alone is pruned"
    np.testing.assert_array_equal(rows[-1], setting.space.maximum)
    assert RIVALS[name].source


def test_uniform_keeps_one_factor():
    setting = setting_of()
    (row,) = RIVALS["uniform"].choose(setting, [12.0])
    factors = setting.space.encode(row[None])[0]
    free = setting.space.is_width & (row > setting.space.low)
    assert np.ptp(factors[free]) <= (setting.space.step / setting.space.maximum)[free].max()


def test_autoslim_takes_the_channels_that_cost_least():
    setting = setting_of()
    dense, path = setting.space.maximum, []

    def error(rows):
        path.append(rows)
        return setting.error(rows)

    spied = Setting(setting.space, setting.latency_ms, error)
    budget = 0.6 * setting.latency_ms(dense[None])[0]
    (found,) = AutoSlim(parts=4).choose(spied, [budget])
    now = dense
    for rows in path:
        changed = rows != now
        assert (changed.sum(axis=1) == 1).all()
        assert setting.space.is_width[changed.any(axis=0)].all()
        now = rows[setting.error(rows).argmin()]
    np.testing.assert_array_equal(found, now)


@pytest.mark.parametrize("seed", range(20))
def test_the_knapsack_is_as_good_as_trying_everything(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 5)
    # Whole numbers over a capacity that divides the slots, so that nothing is rounded.
    worth = [rng.uniform(0, 1, n) for n in sizes]
    weight = [rng.integers(0, 9, n).astype(float) for n in sizes]
    capacity = float(rng.choice([4, 8, 10, 20, 25]))
    chosen = knapsack(worth, weight, capacity)
    combinations = list(itertools.product(*map(range, sizes)))
    total = np.array(
        [
            [sum(v[i] for v, i in zip(table, c, strict=True)) for table in (worth, weight)]
            for c in combinations
        ]
    )
    fits = total[:, 1] <= capacity
    own = [sum(v[i] for v, i in zip(table, chosen, strict=True)) for table in (worth, weight)]
    if fits.any():
        assert own[1] <= capacity
        assert own[0] == pytest.approx(total[fits, 0].max())
    else:
        assert own[1] == total[:, 1].min()


def test_saliency_is_what_the_loss_loses():
    network = RESNET18.build(num_classes=10, width=0.125, input_size=32)
    module = Slimmable(network, np.random.default_rng(0)).double()
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(6, 3, 32, 32, generator=generator, dtype=torch.float64)
    labels = torch.arange(6)
    found = saliencies(module, [(images, labels)])
    assert {name: len(v) for name, v in found.items()} == {
        name: group.channels for name, group in couple(network).groups.items()
    }
    norm, channel, size = "layer2.0.bn1", 3, 1e-4
    losses = []
    for sign in (-1, 1):
        with torch.no_grad():
            terms = [module.get_parameter(f"{norm}.{key}") for key in ("weight", "bias")]
            before = [term.clone() for term in terms]
            for term in terms:
                term[channel] *= 1 + sign * size
            logits = module(images)
            for term, kept in zip(terms, before, strict=True):
                term.copy_(kept)
        losses.append(float(torch.nn.functional.cross_entropy(logits.float().double(), labels)))
    expected = abs(losses[1] - losses[0]) / (2 * size)
    assert found["layer2.0.conv1"][channel] == pytest.approx(expected, rel=0.02, abs=1e-5)


def test_the_sandwich_has_both_ends_and_one_factor():
    space = setting_of().space
    steps = list(UniformSandwich(space).subnetworks(0, 3, np.random.default_rng(0)))
    assert len(steps) == 3
    for largest, smallest, *between in steps:
        np.testing.assert_array_equal(space.row(largest), space.maximum)
        assert len(between) == 2
        rows = np.stack([space.row(a) for a in (largest, *between)])
        assert (rows >= space.row(smallest)).all()
        assert (rows[:, ~space.is_width] == 1).all()


def test_weights_go_by_the_cubic_schedule_and_stay_away():
    network = RESNET18.build(num_classes=10, width=0.125, input_size=32)
    module = Slimmable(network, np.random.default_rng(0))
    layer, end, steps = "layer1.0.conv1", 0.25, 100
    method = GradualPruning(module, {layer: end, "fc": 1.0}, steps)
    weight, seen = module.get_parameter(f"{layer}.weight"), []
    groups = weight.numel() // 4
    for step in range(steps):
        weight.grad = torch.ones_like(weight)
        method.adjust_gradients()
        seen.append(int((weight.reshape(-1, 4, *weight.shape[1:]) != 0).any(1).sum()))
        assert ((weight != 0) == (weight.grad != 0)).all()
        if step % 20 == 0:
            assert seen[-1] == kept_groups(method.density(end, step), groups)
        with torch.no_grad():
            weight -= 0.01 * weight.grad
    method.end_epoch(0)
    assert (seen[0], seen[-1]) == (groups, kept_groups(end, groups))
    assert seen == sorted(seen, reverse=True)
    assert method.density(end, 45) == pytest.approx(end + (1 - end) / 8), "half way"
    assert (module.get_parameter("fc.weight") != 0).all()


def test_saliencies_that_nobody_computes_are_said_to_be_missing():
    setting = setting_of()
    with pytest.raises(JcwError, match="saliencies"):
        RIVALS["halp"].choose(Setting(setting.space, setting.latency_ms, setting.error), [1.0])


RECIPE = """
[run]
threads = 1

[network]
backbone = "resnet18"
width = 0.125

[data]
name = "noise"
holdout = 40

[device]
name = "host"
layer_ms = 0.01
model_ms = 0.01

[latency]
widths = 1
densities = 1
min_rounds = 1
rounds = 1
whole_networks = 0

[supernet]
epochs = 1
batch_size = 60
calibration_images = 64

[rival]
method = "halp"
"""


@dataclass(frozen=True)
class NoKeys:
    """A dataset without keys."""


class Noise:
    """A hundred small images of nothing."""

    name = "noise"
    options = NoKeys

    def open(self, split, options):
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (100, 1, 16, 16)).astype(np.uint8)
        return MemoryDataset(("a", "b"), (0.5,), (0.25,), pixels, np.arange(100) % 2)

    @hookimpl
    def jcw_register_datasets(self):
        return [self]


def rival(tmp_path, **keys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    registry = Registry({"jcw_rivals": plugin, "noise": Noise()})
    found = load_recipe(recipe, registry, {f"rival.{key}": value for key, value in keys.items()})
    context = Context(found, registry, RunDirectory(tmp_path / "run"))
    run(context, until="rival")
    return context


def test_the_stage_writes_a_front(tmp_path):
    with pytest.raises(RecipeError, match=r"\[rival\] budgets_ms"):
        rival(tmp_path)
    table = LatencyTable.load(tmp_path / "run" / "table.npz")
    space = rival(tmp_path, budgets_ms=[1000.0]).space
    dense = LatencyPredictor(table, space).predict(space.maximum[None])[0]
    budgets = [0.7 * dense, 0.9 * dense]
    for method in ("halp", "uniform", "fast-sparse"):
        context = rival(tmp_path, method=method, budgets_ms=budgets)
        front = Front.read(context.path("rival.json"))
        assert (front.network, front.search["strategy"]) == ("resnet18", method)
        latencies = [candidate.objectives["latency"] for candidate in front.candidates]
        assert latencies == sorted(latencies)
        assert latencies[-1] <= budgets[-1]
        assert all(0 <= candidate.objectives["error"] <= 1 for candidate in front.candidates)
    with pytest.raises(JcwError, match="fast-sparse has no network within"):
        rival(tmp_path, method="fast-sparse", budgets_ms=[1e-6])

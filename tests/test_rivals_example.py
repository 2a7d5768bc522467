"""The example package ``jcw-rivals``: methods against brute force and their own definitions."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.errors import JcwError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.channel_groups import couple
from jcw_core.network.weight_groups import kept_groups
from jcw_core.space import SearchSpace

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "jcw-rivals"))
from jcw_rivals import (  # noqa: E402
    RIVALS,
    Amc,
    AutoSlim,
    Dmcp,
    GradualPruning,
    Setting,
    Shared,
    UniformSandwich,
)
from jcw_rivals.chain import Chains, scaled  # noqa: E402
from jcw_rivals.ddpg import Agent, Step  # noqa: E402
from jcw_rivals.dmcp import expected_ms, penalty  # noqa: E402
from jcw_rivals.halp import knapsack  # noqa: E402
from jcw_rivals.saliency import saliencies  # noqa: E402

from jcw_core.training.execution import BatchNorm, execute  # noqa: E402
from jcw_core.training.module import Slimmable  # noqa: E402


def tiny(num_classes, width, input_size):
    """Three convolutions, for what would take too long on a backbone."""
    net = NetworkBuilder("tiny", (3, input_size, input_size))
    for index, channels in enumerate((16, 24, 32)):
        net.conv(f"conv{index}", channels, 3, 2)
        net.batch_norm(f"bn{index}")
        net.add(f"relu{index}", "relu")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", num_classes)
    return net.build()


TINY = SimpleNamespace(name="tiny", bounds=(), build=tiny)


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
    return Setting(space, latency, error, lambda: worth, lambda: shared_of(network, seed), 6, seed)


def shared_of(network, seed=0, size=8):
    """Random weights, and the same few images again and again."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.randn(size, 3, 32, 32, generator=generator), torch.arange(size)
    return Shared(Slimmable(network, np.random.default_rng(seed)), itertools.repeat(batch))


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
    # A policy of so few episodes is hardly more than chance.
    assert (latency >= (0.2 if name == "amc" else 0.7) * np.array(budgets[:3])).all()
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


@pytest.mark.parametrize("method", [Dmcp(), Amc(densities=True)], ids=lambda method: method.name)
def test_what_draws_at_random_goes_by_the_seed(method):
    setting = setting_of(TINY)
    budget = 0.4 * setting.latency_ms(setting.space.maximum[None])[0]
    (one,), (again,) = (method.choose(setting, [budget]) for _ in range(2))
    np.testing.assert_array_equal(one, again)
    if isinstance(method, Dmcp):
        seen = [method.trained(replace(setting, seed=seed), budget, 3).widths() for seed in (0, 1)]
        assert (seen[0] != seen[1]).any()
    else:
        (other,) = method.choose(replace(setting, seed=1), [budget])
        assert (one != other).any()
        assert (one[~setting.space.is_width] < 1).any(), "densities vary, too"


def test_chains_are_probabilities_and_draws_follow_them():
    space = setting_of(MOBILENET_V2).space
    chains, rng = Chains(space, 10, 1.5), np.random.default_rng(0)
    with torch.no_grad():
        for logits in chains.logits:
            logits += torch.from_numpy(rng.normal(size=len(logits))).float()
    for edges, marginals in zip(chains.edges, chains.marginals(), strict=True):
        assert 1 <= len(marginals) <= 10
        assert (np.diff(edges) > 0).all()
        assert ((marginals > 0) & (marginals < 1)).all()
        assert (marginals.diff() < 0).all(), "a part stays only where the one before it does"
    drawn = np.stack([chains.draw(rng) for _ in range(2000)])
    assert (drawn[:, ~space.is_width] == 1).all()
    spread = drawn[:, chains.columns].std(axis=0) / len(drawn) ** 0.5
    away = drawn[:, chains.columns].mean(axis=0) - chains.widths().detach().numpy()
    assert (np.abs(away) < 5 * spread).all()
    for column, kept in zip(chains.columns, chains.widths(), strict=True):
        scale = chains.scales()[space.variables[column].name]
        assert len(scale) == space.maximum[column]
        assert float(scale.sum().detach()) == pytest.approx(float(kept.detach()), rel=1e-5)


@pytest.mark.parametrize("family", [RESNET18, MOBILENET_V2], ids=lambda family: family.name)
def test_scales_of_0_and_1_cut_the_network(family):
    setting = setting_of(family)
    space, shared = setting.space, setting.shared()
    images, _ = next(shared.batches)
    row = space.sample(1, np.random.default_rng(1), space.is_width)[0]
    widths = space.architecture(row).widths
    scales = {
        name: (torch.arange(group.channels) < widths[name]).float()
        for name, group in couple(space.network).groups.items()
        if name in widths
    }
    with torch.no_grad():
        found = execute(space.network, scaled(shared.module, scales), images, BatchNorm())
        cut = shared.module(images, space.architecture(row))
    torch.testing.assert_close(found, cut, rtol=1e-3, atol=1e-4)


def test_the_expected_latency_is_that_of_the_table_and_so_are_its_slopes():
    setting = setting_of()
    chains = Chains(setting.space, 10, 20.0)
    whole = setting.latency_ms(setting.space.maximum[None])[0]
    assert float(expected_ms(setting, chains).detach()) == pytest.approx(whole)
    with torch.no_grad():
        for logits in chains.logits:
            logits.fill_(1.0)
    expected = expected_ms(setting, chains)
    expected.backward()
    assert all((logits.grad > 0).all() for logits in chains.logits), "what stays more often takes longer"
    values = setting.space.maximum.copy()
    values[chains.columns] = chains.widths().detach().numpy()
    assert float(expected.detach()) == pytest.approx(setting.latency_ms(values[None])[0], rel=0.02)


def test_the_budget_pulls_from_both_sides():
    slopes = []
    for ms in (0.5, 0.9, 0.97, 1.0, 1.1, 3.0):
        expected = torch.tensor(ms, requires_grad=True)
        penalty(expected, 1.0).backward()
        slopes.append(np.sign(float(expected.grad)))
    assert slopes == [-1, -1, 0, 0, 1, 1]


def test_expected_widths_follow_the_budget():
    setting = setting_of(TINY)
    whole = setting.latency_ms(setting.space.maximum[None])[0]
    # Much strength, as images of nothing teach random weights more than a supernet has left to learn.
    method = Dmcp(strength=10.0)
    small, large = (
        float(expected_ms(setting, method.trained(setting, share * whole, 40)).detach()) / whole
        for share in (0.3, 0.9)
    )
    assert 0.2 < small < 0.4 < 0.8 < large < 1


def test_an_agent_learns_what_pays():
    rng = np.random.default_rng(0)
    agent = Agent(2, rng, remembered=1000, hidden=64, actor_lr=1e-3, critic_lr=3e-3)
    states = np.array([[0.0, 1.0], [1.0, 0.0]])
    best = np.array([0.2, 0.8])
    for episode in range(400):
        which = episode % 2
        action = agent.act(states[which], np.inf if episode < 100 else 0.2)
        step = Step(states[which], action, states[which], True)
        agent.remember([step], -((action - best[which]) ** 2))
        if episode >= 100:
            agent.learn()
    found = [agent.act(state, 1e-6) for state in states]
    np.testing.assert_allclose(found, best, atol=0.15)


def test_a_policy_earns_more_than_chance():
    setting, errors = setting_of(), []
    # Few layers, so that few episodes tell something.
    space = SearchSpace(setting.space.network, setting.space.variables[1:5])
    weights = np.array([0.1, 1.0, 0.1, 1.0])

    def error(rows):
        errors.append((1 - space.encode(rows)) ** 2 @ weights)
        return errors[-1]

    def latency(rows):
        return space.encode(rows).sum(axis=1)

    (found,) = Amc().choose(Setting(space, latency, error, evaluations=160), [2.2])
    tried = np.concatenate(errors)
    assert len(tried) == 160
    assert latency(found[None])[0] <= 2.2
    assert error(found[None])[0] == tried.min()
    assert tried[-20:].mean() < 0.7 * tried[:40].mean()


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
    kept = weight != 0
    for step, _ in enumerate(method.subnetworks(0, steps, np.random.default_rng(0))):
        assert ((weight != 0) == kept).all(), "what is pruned is zero when the network runs"
        weight.grad = torch.ones_like(weight)
        method.adjust_gradients()
        kept = weight != 0
        seen.append(int((weight.reshape(-1, 4, *weight.shape[1:]) != 0).any(1).sum()))
        assert (kept == (weight.grad != 0)).all()
        if step % 20 == 0:
            assert seen[-1] == kept_groups(method.density(end, step), groups)
        with torch.no_grad():
            weight -= 0.01 * weight.grad + 1e-9  # by momentum
    method.end_epoch(0)
    assert ((weight != 0) == kept).all()
    assert (seen[0], seen[-1]) == (groups, kept_groups(end, groups))
    assert seen == sorted(seen, reverse=True)
    assert method.density(end, 45) == pytest.approx(end + (1 - end) / 8), "half way"
    assert (module.get_parameter("fc.weight") != 0).all()


def test_what_nobody_computes_is_said_to_be_missing():
    setting = setting_of()
    with pytest.raises(JcwError, match="saliencies"):
        RIVALS["halp"].choose(Setting(setting.space, setting.latency_ms, setting.error), [1.0])
    budget = 0.5 * setting.latency_ms(setting.space.maximum[None])[0]
    with pytest.raises(JcwError, match="shared weights"):
        RIVALS["dmcp"].choose(Setting(setting.space, setting.latency_ms, setting.error), [budget])

"""AMC (He et al. 2018): a policy that says layer by layer how many channels stay, learned from whole networks' errors.

Faithful: DDPG with a replay memory and noise that falls after an exploration at random; the state, which has the layer's
own figures, what the layers before it have saved, what those after it cost, and the last action; the action, a share of
channels; actions that are bounded so that the smallest layers after them still meet the budget; the reward, which is the
error and nothing of the cost; the best of all episodes as the result. Here layers whose channels must be equal are one
step, cost is the latency table's, errors are those with the supernet's weights, in place of a network whose layers are
fitted by least squares after pruning. One policy serves all budgets, which are part of the state and taken in turn, so
that it has as many episodes as another search has evaluations, and an episode may answer any budget that it is within.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from jcw_core.network.operations import pair
from jcw_core.space import Population
from jcw_rivals.ddpg import Agent, Step
from jcw_rivals.setting import Floats, Setting, answered, asked, wide


@dataclass(frozen=True)
class Amc:
    """A learned policy over layers.

    Args:
        densities: also how many weights of each layer stay, the paper's fine-grained pruning, as a step of its own.
        explored: share of the episodes that act at random, before the policy learns; 100 of 400 in the paper.
        noise: standard deviation of actions after these, 0.5 in the paper, which falls exponentially to a hundredth.
    """

    densities: bool = False
    explored: float = 0.25
    noise: float = 0.5
    name: str = "amc"
    source: str = "He et al. 2018, AMC: AutoML for Model Compression and Acceleration on Mobile Devices"

    def choose(self, setting: Setting, budgets_ms: Sequence[float]) -> list[Population | None]:
        """One row within each budget."""
        walk = _Walk(setting, self.densities)
        wanted = asked(setting, budgets_ms, walk.varies)
        if not wanted:
            return answered(setting, {}, budgets_ms)
        rows = self._episodes(setting, walk, wanted)
        return answered(setting, rows, budgets_ms)

    def _episodes(self, setting: Setting, walk: _Walk, budgets_ms: list[float]) -> dict[float, Population]:
        """The best row within each budget."""
        rng, count = np.random.default_rng(setting.seed), max(setting.evaluations, len(budgets_ms))
        agent = Agent(walk.features, rng, remembered=100 * len(walk.columns))
        found, errors, explored = [], [], round(self.explored * count)
        for episode in range(count):
            learns = episode >= explored
            noise = self.noise * 0.01 ** ((episode - explored) / (count - explored)) if learns else np.inf
            row, steps = walk.episode(agent, budgets_ms[episode % len(budgets_ms)], noise)
            found.append(row)
            errors.append(float(setting.error(row[None])[0]))
            agent.remember(steps, -errors[-1])
            for _ in steps if learns else ():
                agent.learn()
        rows, latency = np.stack(found), setting.latency_ms(np.stack(found))
        within = {budget: np.flatnonzero(latency <= budget) for budget in budgets_ms}
        return {
            budget: rows[fits[np.array(errors)[fits].argmin()]]
            for budget, fits in within.items()
            if len(fits)
        }


class _Walk:
    """The layers in their order, and what the policy sees of each.

    Args:
        setting: with the latencies.
        densities: layers' densities vary, too.
    """

    def __init__(self, setting: Setting, densities: bool) -> None:
        space = setting.space
        self._setting = setting
        self.varies = wide(space) | (densities & ~space.is_width & (space.low < space.high))
        order = {node.name: index for index, node in enumerate(space.network)}
        self.columns = sorted(
            np.flatnonzero(self.varies),
            key=lambda c: (order[space.variables[c].name], space.variables[c].kind == "density"),
        )
        self._least = np.where(self.varies, space.low, space.maximum)
        self._whole_ms = float(setting.latency_ms(space.maximum[None])[0])
        self._known, self._costs = self._own(), self._alone()
        self.features = self._known.shape[-1] + 5

    def _own(self) -> Floats:
        """(layers, figures) from 0 to 1: place, kind, channels, kernel, size of the output and stride."""
        network, found = self._setting.space.network, []
        for index, column in enumerate(self.columns):
            variable = self._setting.space.variables[column]
            node, weight = network[variable.name], network.parameter_shapes[f"{variable.name}.weight"]
            plane = network.shapes[node.name][1:]
            stride = pair(node.attributes, "stride")[0] if "stride" in node.attributes else 1
            found.append(
                [index, variable.kind == "density", *weight[:2], prod(weight[2:]), prod(plane), stride]
            )
        figures: Floats = np.array(found, dtype=np.float64).reshape(-1, 7)
        figures /= np.maximum(figures.max(axis=0, initial=0), 1)
        return figures

    def _alone(self) -> Floats:
        """(layers,) share of the latency that goes if one layer alone becomes as small as it may."""
        rows = np.repeat(self._setting.space.maximum[None], len(self.columns), axis=0)
        rows[np.arange(len(rows)), self.columns] = self._least[self.columns]
        share: Floats = 1 - self._setting.latency_ms(rows) / self._whole_ms
        return share

    def episode(self, agent: Agent, budget_ms: float, noise: float) -> tuple[Population, list[Step]]:
        """One network within the budget, and the steps that led to it."""
        row, action, steps = self._setting.space.maximum.copy(), 1.0, []
        state = self._state(0, row, action, budget_ms)
        for index in range(len(self.columns)):
            action = self._bounded(index, row, agent.act(state, noise), budget_ms)
            after = self._state(index + 1, row, action, budget_ms)
            steps.append(Step(state, action, after, index + 1 == len(self.columns)))
            state = after
        return row, steps

    def _state(self, index: int, row: Population, action: float, budget_ms: float) -> Floats:
        """(features,) before the layer ``index``; after the last one, that layer's own figures."""
        saved = 1 - float(self._setting.latency_ms(row[None])[0]) / self._whole_ms
        own = min(index, len(self.columns) - 1)
        moving = [self._costs[own], saved, self._costs[index + 1 :].sum(), action, budget_ms / self._whole_ms]
        return np.concatenate([self._known[own], moving])

    def _bounded(self, index: int, row: Population, action: float, budget_ms: float) -> float:
        """Set a layer of ``row`` to what is nearest to the action and leaves enough for those after it."""
        space, column, later = self._setting.space, self.columns[index], self.columns[index + 1 :]
        options = np.append(
            np.arange(space.low[column], space.high[column] - 1e-9, space.step[column]), space.high[column]
        )
        rows = np.repeat(row[None], len(options), axis=0)
        rows[:, later] = self._least[later]
        rows[:, column] = options
        rows = space.decode(space.encode(rows))
        within = self._setting.latency_ms(rows) <= budget_ms
        within[0] = True  # as the steps before have seen to, but for the last bit
        fits = rows[within, column]
        row[column] = fits[np.abs(fits - action * space.maximum[column]).argmin()]
        return float(row[column] / space.maximum[column])

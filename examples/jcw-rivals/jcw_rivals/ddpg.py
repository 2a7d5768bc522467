"""Deep deterministic policy gradients (Lillicrap et al. 2016), as AMC has them: an actor, a critic, and a memory of both."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from jcw_rivals.setting import Floats


@dataclass(frozen=True)
class Step:
    """One action and what came of it.

    Args:
        state, after: (features,) before and after it.
        action: from 0 to 1.
        last: True if it was the last of its episode.
    """

    state: Floats
    action: float
    after: Floats
    last: bool


class Agent:
    """An actor, which says how much to keep, and a critic, which says what that is worth.

    All steps of an episode bear its reward less a moving average of rewards, so that steps are not rewarded for
    being late in the episode; rewards are not discounted.

    Args:
        features: of a state.
        rng: the only source of randomness.
        remembered: steps, the oldest of which are forgotten.
        hidden: units in each of two layers.
        actor_lr, critic_lr: learning rates, by Adam.
        batch_size: steps that are learned from at once.
        tau: share by which the networks that give targets follow.
    """

    def __init__(
        self, features: int, rng: np.random.Generator, remembered: int,
        hidden: int = 300, actor_lr: float = 1e-4, critic_lr: float = 1e-3, batch_size: int = 64, tau: float = 0.01,
    ) -> None:  # fmt: skip
        self._rng, self._batch_size, self._tau = rng, batch_size, tau
        self._actor, self._critic = _network(features, hidden, rng), _network(features + 1, hidden, rng)
        self._targets = deepcopy(self._actor), deepcopy(self._critic)
        self._by_actor = torch.optim.Adam(self._actor.parameters(), actor_lr, fused=True)
        self._by_critic = torch.optim.Adam(self._critic.parameters(), critic_lr, fused=True)
        self._memory: deque[tuple[Step, float]] = deque(maxlen=remembered)
        self._baseline: float | None = None

    @torch.no_grad()
    def act(self, state: Floats, noise: float) -> float:
        """An action from 0 to 1, around the actor's by a normal distribution that is cut off at these ends.

        Args:
            noise: standard deviation; infinity to draw from 0 to 1 without asking the actor.
        """
        if np.isinf(noise):
            return float(self._rng.uniform())
        wanted = float(torch.sigmoid(self._actor(torch.from_numpy(state).float())))
        while not 0 <= (action := float(self._rng.normal(wanted, noise))) <= 1:
            continue
        return action

    def remember(self, episode: Sequence[Step], reward: float) -> None:
        """Keep an episode."""
        self._memory.extend((step, reward) for step in episode)

    def learn(self) -> None:
        """Take one step of the critic and one of the actor, on some of what is remembered."""
        drawn = self._rng.integers(len(self._memory), size=self._batch_size)
        steps, rewards = zip(*(self._memory[i] for i in drawn), strict=True)
        states, actions, after, last, reward = (
            torch.from_numpy(np.array(values)).float()
            for values in (
                [s.state for s in steps], [[s.action] for s in steps], [s.after for s in steps],
                [[s.last] for s in steps], [[r] for r in rewards],
            )
        )  # fmt: skip
        mean = float(reward.mean())
        self._baseline = mean if self._baseline is None else (self._baseline + mean) / 2
        actor, critic = self._targets
        with torch.no_grad():
            later = critic(torch.cat([after, torch.sigmoid(actor(after))], 1))
            target = reward - self._baseline + (1 - last) * later
        _descend(self._by_critic, (self._critic(torch.cat([states, actions], 1)) - target).square().mean())
        wanted = torch.sigmoid(self._actor(states))
        _descend(self._by_actor, -self._critic(torch.cat([states, wanted], 1)).mean())
        for follows, network in zip(self._targets, (self._actor, self._critic), strict=True):
            for old, new in zip(follows.parameters(), network.parameters(), strict=True):
                old.detach().lerp_(new.detach(), self._tau)


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _network(features: int, hidden: int, rng: np.random.Generator) -> nn.Module:
    """Two hidden layers and one output, which is near 0 at first."""
    sizes = [features, hidden, hidden, 1]
    layers: list[nn.Linear] = [skip_init(nn.Linear, *ends) for ends in pairwise(sizes)]  # type: ignore[no-untyped-call]
    for layer in layers:
        limit = 0.003 if layer is layers[-1] else layer.in_features**-0.5
        for parameter in layer.parameters():
            drawn = rng.uniform(-limit, limit, tuple(parameter.shape)).astype(np.float32)
            parameter.data = torch.from_numpy(drawn)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])

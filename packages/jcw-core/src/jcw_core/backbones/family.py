"""What the built-in backbones share: how they are registered, scaled and fitted to small images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jcw_core.errors import NetworkError
from jcw_core.network.graph import Network
from jcw_core.space.bounds import Bound

SMALL_INPUT = 64
"""Up to this height and width a network leaves out its first two halvings, as is usual on 28 to 64 pixels."""
WIDTHS = (0.01, 16.0)
"""Least and greatest factor on all channels that users may give."""


class Build(Protocol):
    """The function of a backbone; see ``jcw_core.protocols.Backbone.build``."""

    def __call__(
        self, *, num_classes: int = 1000, width: float = 1.0, input_size: int = 224, in_channels: int = 3
    ) -> Network:
        """Return the network."""


@dataclass(frozen=True, slots=True)
class Family:
    """A backbone as it is registered: ``jcw_core.protocols.Backbone`` made of its parts."""

    name: str
    bounds: Sequence[Bound]
    build: Build


def scaled(channels: float, multiple: int) -> int:
    """Round to the nearest multiple, up at a tie, but never below nine tenths of ``channels``.

    The rule of MobileNetV2's authors, with which widths like 0.35 give their published networks.

    Raises:
        NetworkError: ``channels`` is not above 0.
    """
    if not channels > 0:
        raise NetworkError(f"a width factor gives {channels:g} channels; it must be above 0")
    rounded = max(multiple, int(channels / multiple + 0.5) * multiple)
    return rounded if rounded >= 0.9 * channels else rounded + multiple

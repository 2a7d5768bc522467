"""Units: the operations of a network as an engine runs them and a device times them.

Batch norm folds into the convolution before it; a residual add and an activation happen while the
accumulators are in registers. The engine executes units and the latency model costs units, so both
read them from here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from jcw_core.network import Network, Node
from jcw_core.ops import ACTIVATIONS, integer, pair
from jcw_core.problem import LayerProblem

_TAKES_ACTIVATION = frozenset({"conv2d", "linear", "batch_norm", "add", "mul"})


@dataclass(frozen=True, slots=True)
class Unit:
    """One operation with what is fused into it.

    Args:
        node: the operation itself; its name is the unit's name.
        batch_norm: the batch norm that folds into it.
        residual: the node whose output is added before the activation.
        activation: operation name, or ``""``.
        inputs: nodes that it reads, the residual left out. Each is some unit's ``output``.
        output: the node whose value it computes.
    """

    node: Node
    batch_norm: Node | None
    residual: str | None
    activation: str
    inputs: tuple[str, ...]
    output: str

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self.node.name


@lru_cache(maxsize=256)
def fuse(network: Network) -> tuple[Unit, ...]:
    """The units of a network in an order that can be executed; ``input`` and ``output`` have none."""
    units: list[Unit] = []
    made: dict[str, int] = {}
    for node in network:
        if node.op in ("input", "output"):
            continue
        index = _host(network, node, units, made)
        if index is None:
            units.append(Unit(node, None, None, "", node.inputs, node.name))
            index = len(units) - 1
        else:
            units[index] = _absorb(units[index], node)
        made[node.name] = index
    return tuple(units)


def _host(network: Network, node: Node, units: list[Unit], made: dict[str, int]) -> int | None:
    """The unit into which ``node`` fuses, or None."""
    sources = [name for name in node.inputs if name in made]
    if not sources:
        return None
    index = max(made[name] for name in sources)
    unit = units[index]
    if unit.output not in node.inputs or len(network.consumers[unit.output]) != 1 or unit.activation:
        return None
    op = unit.node.op
    if node.op == "batch_norm":
        fits = op == "conv2d" and unit.batch_norm is None and unit.residual is None
    elif node.op == "add":
        other = [name for name in node.inputs if name != unit.output]
        fits = op == "conv2d" and unit.residual is None and len(other) == 1
    else:
        fits = node.op in ACTIVATIONS and op in _TAKES_ACTIVATION
    return index if fits else None


def _absorb(unit: Unit, node: Node) -> Unit:
    if node.op == "batch_norm":
        return replace(unit, batch_norm=node, output=node.name)
    if node.op == "add":
        other = next(name for name in node.inputs if name != unit.output)
        return replace(unit, residual=other, output=node.name)
    return replace(unit, activation=node.op, output=node.name)


def problem_of(network: Network, unit: Unit, density: float = 1.0) -> LayerProblem:
    """What a device has to time for one unit of a network."""
    node = unit.node
    first, out = network.shapes[unit.inputs[0]], network.shapes[unit.output]
    windowed = "kernel_size" in node.attributes
    one = (1, 1)
    return LayerProblem(
        op="scale" if _is_scale(network, unit) else node.op,
        in_channels=sum(network.shapes[name][0] for name in unit.inputs) if node.op == "concat" else first[0],
        in_height=first[1] if len(first) == 3 else 1,
        in_width=first[2] if len(first) == 3 else 1,
        out_channels=out[0] if len(out) == 3 else prod(out),
        kernel_size=pair(node.attributes, "kernel_size") if windowed else one,
        stride=pair(node.attributes, "stride") if windowed else one,
        padding=pair(node.attributes, "padding") if windowed else (0, 0),
        groups=integer(node.attributes, "groups") if node.op == "conv2d" else 1,
        density=density,
        activation=unit.activation,
        residual=unit.residual is not None,
    )


def _is_scale(network: Network, unit: Unit) -> bool:
    return unit.node.op == "mul" and network.shapes[unit.inputs[1]] != network.shapes[unit.inputs[0]]

"""``Node``: one operation of a network, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jcw_core.errors import NetworkError
from jcw_core.frozen import FrozenDict
from jcw_core.network.operations import LARGEST_FLOAT, OPERATIONS, Attribute, Attributes, Operation

LARGEST = 2**24
"""Channels, pixels and features stay below it, so that no damaged file asks for absurd arrays."""

_INPUTS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: its name, kind, the names of the nodes it reads, and plain attributes."""

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attributes: Attributes = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        check_name("node", self.name)
        operation = OPERATIONS.get(self.op)
        if operation is None:
            raise NetworkError(
                f"node {self.name!r}: unknown operation {self.op!r}; known are {', '.join(OPERATIONS)}"
            )
        required = set(operation.attributes) - set(operation.defaults)
        if not required <= set(self.attributes) <= set(operation.attributes):
            raise NetworkError(
                f"node {self.name!r} ({self.op}): attributes are {sorted(self.attributes)}, "
                f"expected {sorted(required)}{_optional(operation)}"
            )
        if operation.arity is not None and len(self.inputs) != operation.arity:
            raise NetworkError(
                f"node {self.name!r} ({self.op}): {len(self.inputs)} inputs, expected {operation.arity}"
            )
        if operation.arity is None and not self.inputs:
            raise NetworkError(f"node {self.name!r} ({self.op}): no inputs, expected one or more")
        checked = {
            key: _checked(self, key, kind, self.attributes[key])
            for key, kind in operation.attributes.items()
            if key in self.attributes
        }
        told = {key: value for key, value in checked.items() if value != operation.defaults.get(key)}
        object.__setattr__(self, "attributes", FrozenDict(told))

    def __repr__(self) -> str:
        inputs = ", ".join(self.inputs[:_INPUTS_SHOWN]) + (
            ", ..." if len(self.inputs) > _INPUTS_SHOWN else ""
        )
        attributes = "".join(f", {key}={value!r}" for key, value in self.attributes.items())
        return f"<Node {self.name!r}: {self.op}({inputs}{attributes if inputs else attributes[2:]})>"


def check_name(kind: str, name: str) -> None:
    """Refuse what no file could hold, or what would do something to a terminal that it is printed on.

    Raises:
        NetworkError: ``name`` is empty or holds a control character, a line break or half a surrogate pair.
    """
    if not name or not name.isprintable():
        raise NetworkError(
            f"{kind} name {name!r:.80} is empty or holds characters that cannot be printed; rename it"
        )


def _optional(operation: Operation) -> str:
    return f"; {', '.join(sorted(operation.defaults))} may be left out" if operation.defaults else ""


def _checked(node: Node, key: str, kind: str, value: Any) -> Attribute:
    """Return ``value`` in its canonical type, or raise ``NetworkError``."""
    if kind == "name" and isinstance(value, str) and value.isprintable():
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    if (
        kind == "float"
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value < 1e9
    ):
        return float(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "number" and is_number and abs(value) <= LARGEST_FLOAT:
        return float(value)
    lowest = 0 if kind in ("padding", "index", "amounts") else 1
    if kind in ("int", "index") and _is_size(value, lowest):
        return int(value)
    if kind == "padding" and isinstance(value, (tuple, list)) and len(value) == 4 and value[:2] == value[2:]:
        value = value[:2]
    if kind in ("pair", "amounts", "shape", "padding") and isinstance(value, (tuple, list)):
        lengths = {"pair": (2,), "amounts": (2,), "padding": (2, 4)}.get(kind, (len(value),))
        if len(value) in lengths and value and all(_is_size(v, lowest) for v in value):
            return tuple(int(v) for v in value)
    raise NetworkError(f"node {node.name!r} ({node.op}): {key} = {value!r} is not a valid {kind}")


def _is_size(value: Any, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= LARGEST

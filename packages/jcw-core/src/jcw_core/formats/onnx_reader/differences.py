"""What the user of an ONNX file should know of its network: a precision that is not kept, layers that must stay whole."""

from __future__ import annotations

from collections.abc import Iterator

from jcw_core.formats.onnx_reader.graph import Constant, Graph, Operator
from jcw_core.formats.onnx_reader.translation import WEIGHTED, Translation

_FEW = 4
"""Names that one line lists."""


def differences(graph: Graph, net: Translation) -> Iterator[str]:
    """A line for each way in which the network is another than the file's; the lines do not name the file.

    Args:
        graph: the file's.
        net: its translation, once it is complete.
    """
    weights = [
        (operator, value)
        for operator in graph.operators
        if operator.op in WEIGHTED and isinstance(value := net[operator.input(1)], Constant)
    ]
    yield from _precision(graph, weights)
    yield from _shared_weights(weights)


def _precision(graph: Graph, weights: list[tuple[Operator, Constant]]) -> Iterator[str]:
    found = {graph.precision: f"the input {graph.input!r}"}
    for operator, weight in weights:
        found.setdefault(weight.precision, f"the weights of node {operator.name!r}")
    others = [f"{kind} in {what}" for kind, what in found.items() if kind not in ("", "undefined", "float32")]
    if others:
        yield f"holds {' and '.join(others)}, but networks have no precision: prices are those of float32"


def _shared_weights(weights: list[tuple[Operator, Constant]]) -> Iterator[str]:
    """Equal batch norms are often stored once, but only layers' weights decide what a search may prune."""
    users: dict[int, list[str]] = {}
    for operator, weight in weights:
        if operator.op != "BatchNormalization":
            # The same tensor, however many names its value has.
            users.setdefault(id(weight), []).append(repr(operator.name))
    for names in (names for names in users.values() if len(names) > 1):
        more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
        yield (
            f"nodes {', '.join(names[:_FEW])}{more} share a weight, so these layers keep "
            "all of their channels and weights"
        )

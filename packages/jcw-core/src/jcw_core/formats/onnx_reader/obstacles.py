"""What of an ONNX file has no place in a network: all of it in one line that stays readable where it is much."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jcw_core.formats.onnx_reader.graph import Operator

UNKNOWN = "this operator has no place in a network"
"""What is wrong with an operator that no table knows."""
_FEW = 3
"""Nodes of one kind of obstacle that are named."""


class Obstacles:
    """Obstacles by kind, in the order of the file."""

    def __init__(self) -> None:
        # By operator and message, but for the names and numbers in it.
        self.found: dict[tuple[str, str], tuple[str, list[str]]] = {}

    def add(self, operator: Operator, message: str) -> None:
        """Note what is wrong with an operator."""
        kind = operator.op, re.sub(r"'[^']*'|\d+", "", message)
        self.found.setdefault(kind, (message, []))[1].append(operator.name)

    def in_words(self, known: Iterable[str]) -> str:
        """One line, which ends with what there is to do.

        Args:
            known: operators that have a place.
        """
        kinds = [_of_kind(op, *what) for (op, _), what in self.found.items()]
        if any(message == UNKNOWN for message, _ in self.found.values()):
            kinds.append(f"there is: {', '.join(sorted(known))}")
        tail = "what is left outside when the network ends before it (--outputs NAME,NAME or [network] outputs) needs no place"
        return "; ".join([*kinds, tail])


def _of_kind(op: str, message: str, names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_FEW]))
    if len(names) > _FEW:
        shown += f" and {len(names) - _FEW} more"
    return f"node{'s' if len(names) > 1 else ''} {shown} ({op}): {message}"

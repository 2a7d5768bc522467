"""Text from files and devices: what no terminal should print is found before it is kept or shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

_REFUSED = {"Cc": "a control character", "Cs": "a lone surrogate", "Zl": "a line break", "Zp": "a line break"}
"""Unicode categories of characters that steer a terminal, break a line, or cannot be encoded."""


def unprintable(document: Any) -> str | None:
    """What is wrong with the first text within a JSON document that cannot be shown as it is; None if all can."""
    for text in _texts(document):
        if text.isprintable():
            continue
        for character in text:
            if (found := _REFUSED.get(unicodedata.category(character))) is not None:
                return f"{text[:40]!a} holds {found}"
    return None


def _texts(document: Any) -> Iterator[str]:
    # By hand: a document may be nested deeper than Python calls.
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            waiting += value

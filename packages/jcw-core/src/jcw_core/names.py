"""Names that come from elsewhere: which of them may become paths, and how they are shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def is_text(value: Any) -> bool:
    """True for text that is there and has no control character, terminal escape or lone surrogate in it."""
    return isinstance(value, str) and value != "" and value.isprintable()


def is_plain_name(value: Any) -> bool:
    """True for what can name a file in any folder: no path, and not hidden."""
    return is_text(value) and not value.startswith(".") and not set(value) & set("/\\")


def is_path_inside(value: Any) -> bool:
    """True for a path that leads from a folder to a place below it, as files of a run name each other."""
    return is_text(value) and all(map(is_plain_name, value.split("/")))


def or_nearest(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """The end of an error about a name that is not there: the nearest of those that are, or ``otherwise``."""
    near = get_close_matches(name, list(names), n=1)
    hint = f"did you mean {near[0]!r}?" if near else otherwise
    return hint and f"; {hint}"


def printable(text: str) -> str:
    """``text`` as a terminal may have it: what is neither seen nor a space or a new line is a backslash escape.

    Names in files may hold sequences that move the cursor, and paths bytes that are no characters.
    """
    return "".join(c if _is_shown(c) else c.encode("unicode_escape").decode() for c in text)


def _is_shown(character: str) -> bool:
    return character.isprintable() or character == "\n" or unicodedata.category(character) == "Zs"

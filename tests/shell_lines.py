"""Commands that pages show, taken apart as a shell would."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
)
_FENCE = re.compile(r"^```(sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
_PROGRAMS = ("jcw", "pip", "cmake", "emcmake", "tox", "torchrun")
"""With which lines of an indented block begin that are commands; other blocks are code or output."""


class Shown(NamedTuple):
    """A command, and the page that shows it."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)

    def jcw(self) -> list[str] | None:
        """What is given to ``jcw``, whoever starts it; None where nobody does."""
        if self.words[0] == "jcw":
            return list(self.words[1:])
        if "jcw_core" in self.words:
            return list(self.words[self.words.index("jcw_core") + 1 :])
        return None


def commands() -> list[Shown]:
    """All of them, each once for a page."""
    found = [
        Shown(str(page.relative_to(ROOT)), words)
        for page in PAGES
        for line in _lines(page.read_text(encoding="utf-8"))
        for words in _commands(line)
    ]
    return list(dict.fromkeys(found))


def _lines(text: str) -> Iterator[str]:
    """Lines of shell, those that go on joined, without what a console prints."""
    text = text.replace("\\\n", " ")
    for kind, block in _FENCE.findall(text):
        lines = block.splitlines()
        yield from (line[2:] for line in lines if line.startswith("$ ")) if kind == "console" else lines
    for block in _INDENTED.findall(_FENCE.sub("", text)):
        yield from (line for line in block.splitlines() if line.split()[0] in _PROGRAMS)


def _commands(line: str) -> Iterator[tuple[str, ...]]:
    """The words of each command of a line, in which ``&&``, ``|`` and the like part them."""
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in (*lexer, ";"):
        if set(word) <= set("();<>|&"):
            if words:
                yield tuple(words)
            words = []
        else:
            words.append(word)

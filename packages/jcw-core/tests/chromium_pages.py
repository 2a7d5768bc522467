"""Pages opened in Chromium: what becomes of them, what it complains of, and what it calls their parts."""

from __future__ import annotations

import html
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER = """
const result = document.createElement("pre");
result.id = "found";
result.textContent = JSON.stringify(found);
document.body.append(result);
"""

NAMES = """
for (const details of document.querySelectorAll("details")) details.open = true;
for (const button of document.querySelectorAll(".copy")) button.hidden = false;
const parts = document.querySelectorAll("svg, img, progress, meter, button, a, summary, input, select, table.sortable th");
const found = [...parts].map(part => [part.outerHTML.slice(0, 80), part.computedRole, part.computedName.trim()]);
"""
"""What programs that read a page aloud call each part that is no text."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a page has become, and the lines that it left on the console."""

    dom: str
    console: list[str]

    @property
    def found(self) -> Any:
        """What ``ANSWER`` left behind."""
        result = re.search(r'<pre id="found">(.*?)</pre>', self.dom, re.DOTALL)
        assert result is not None, self.console
        return json.loads(html.unescape(result[1]))


def visit(url: str, folder: Path, *flags: str) -> Visit:
    """Open a page, in a browser of its own."""
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--enable-logging=stderr", "--enable-blink-features=ComputedAccessibilityInfo",
        f"--user-data-dir={folder / 'browser'}", *flags, "--dump-dom", url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return Visit(done.stdout, re.findall(r"^\[[^]]*:CONSOLE[^]]*\] (.*)$", done.stderr, re.MULTILINE))


def with_script(page: str, script: str) -> str:
    """A page at whose end a script runs that sets ``found``."""
    return page.replace("</body>", f"<script>{{{script}{ANSWER}}}</script></body>")


def require_names(found: list[list[str]]) -> None:
    """Every part has a name that is told."""
    nameless = [part for part, _, name in found if not name]
    assert not nameless, nameless

"""Links of pages that are read on GitHub as well: between pages, also those included, and into the repository.

What leads to a file or folder of the repository that is no page of the site stays as its text.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
REPOSITORY = DOCS.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "packages/jcw-core/src/jcw_core/protocols": "protocols.md",
    **{
        f"packages/{path.stem}{file}": f"packages/{path.name}"
        for path in sorted((DOCS / "packages").glob("*.md"))
        for file in ("", "/README.md")
    },
}
"""Pages that stand for what lies outside ``docs``; most of them include it."""

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]+)?\)")


def rewritten(text: str, folder: Path) -> str:
    """A page's text with links as the site has them; one that leads nowhere is left for Sphinx to report.

    Args:
        text: Markdown.
        folder: where the file with this text lies.
    """

    def link(match: re.Match[str]) -> str:
        label, path, fragment = match[1], match[2], match[3] or ""
        target = (folder / path).resolve()
        if target.is_relative_to(DOCS):
            return f"[{label}](/{target.relative_to(DOCS)}{fragment})"
        if not target.is_relative_to(REPOSITORY) or not target.exists():
            return match[0]
        page = PAGES.get(str(target.relative_to(REPOSITORY)))
        return f"[{label}](/{page}{fragment})" if page else label

    return _LINK.sub(link, text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrite pages, and what they include."""
    app.connect("source-read", _page)
    app.connect("include-read", _included)
    return {"parallel_read_safe": True}


def _page(app: Sphinx, name: str, content: list[str]) -> None:
    content[0] = rewritten(content[0], (DOCS / name).parent)


def _included(app: Sphinx, path: Path, name: str, content: list[str]) -> None:
    content[0] = rewritten(content[0], (DOCS / path).resolve().parent)

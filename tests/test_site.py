"""The site of ``docs/``: it has no dead links, and what is made from the code has everything.

Where JCW_SITE names a folder, the site that `tox run -e docs` has built there is looked at; elsewhere it is built.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

pytest.importorskip("sphinx", reason="the site takes docs/requirements.txt; tox run -e docs has it")

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "extensions"))


class Page(HTMLParser):
    """Targets of links and identifiers of a page, and the keys that it describes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = os.environ.get("JCW_SITE")
    if built:
        return ROOT / built
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path.resolve(): Page(path) for path in site.rglob("*.html")}


@pytest.fixture(scope="module")
def installed(site: Path) -> Any:
    """What the packages register, as the site has it; it can only be asked for once the site could be built."""
    return importlib.import_module("installed")


def dead_links(pages: dict[Path, Page]) -> Iterator[str]:
    for path, page in pages.items():
        for link in page.links:
            target, fragment = urldefrag(link)
            if re.match(r"\w+:|//", target):
                continue
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            if not file.exists() or (fragment and file in pages and unquote(fragment) not in pages[file].ids):
                yield f"{path.name}: {link}"


def test_no_link_is_dead(pages: dict[Path, Page]) -> None:
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert list(dead_links(pages)) == []


def test_a_dead_link_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a id="x" href="b.html#y"></a><a href="#z"></a><a href="c.html"></a>')
    (tmp_path / "b.html").write_text(
        '<p id="y"></p><a href="a.html#x"></a><a href="https://example.org"></a>'
    )
    pages = {path.resolve(): Page(path) for path in tmp_path.glob("*.html")}
    assert list(dead_links(pages)) == ["a.html: #z", "a.html: c.html"]


def test_every_page_is_on_the_site(pages: dict[Path, Page], site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).resolve() in pages


def test_the_site_asks_all_packages(installed: Any) -> None:
    assert {name.replace("_", "-") for name in installed.PACKAGES} == {
        path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")
    }


def test_every_command_and_option_is_described(site: Path, pages: dict[Path, Page], installed: Any) -> None:
    ids = pages[(site / "commands.html").resolve()].ids
    for words, command in commands(installed.COMMAND):
        for parameter in command.params:
            option = max(parameter.opts, key=len)
            if option.startswith("--"):
                assert "-".join(("cmdoption", *words, option.removeprefix("--"))) in ids


def commands(command: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that call it."""
    words = (*before, command.name)
    yield words, command
    for inner in getattr(command, "commands", {}).values():
        yield from commands(inner, *words)


def test_every_key_of_a_recipe_is_described(site: Path, pages: dict[Path, Page], installed: Any) -> None:
    described = re.findall(
        r'<dt class="sig sig-object std"[^>]*>\s*<span class="sig-name descname">(?:<span class="pre">)?([\w.]+)',
        pages[(site / "recipe.html").resolve()].text,
    )
    known = Counter(f"{table.name}.{key.name}" for table in installed.TABLES for key in table.keys)
    assert known["device.threads"] == 3
    assert Counter(described) == known


def test_every_name_at_a_door_is_described(site: Path, pages: dict[Path, Page], installed: Any) -> None:
    for package in (*installed.PACKAGES, "jcw_core.network", "jcw_core.space", "jcw_core.protocols"):
        door = importlib.import_module(package)
        page = "protocols" if package.endswith("protocols") else f"packages/{package.split('.')[0]}"
        ids = pages[(site / f"{page.replace('_', '-')}.html").resolve()].ids
        for name in door.__all__:
            assert {f"{package}.{name}", f"{package.split('.')[0]}.{name}"} & ids, name


@pytest.mark.parametrize(
    ("link", "there"),
    [
        ("[a](fidelity.md#the-verdict)", "[a](/fidelity.md#the-verdict)"),
        ("[a](../packages/jcw-core#your-own-network-without-a-recipe)", "[a](/packages/jcw-core.md#your-own-network-without-a-recipe)"),
        ("[a](../CHANGELOG.md)", "[a](/changelog.md)"),
        ("[`a`](../examples)", "`a`"),
        ("[a](nowhere.md)", "[a](/nowhere.md)"),
        ("[a](../nowhere)", "[a](../nowhere)"),
        ("[a](https://example.org) ![a](fidelity.png) [a](#b)", "[a](https://example.org) ![a](fidelity.png) [a](#b)"),
    ],
)  # fmt: skip
def test_links_of_pages_lead_to_pages(link: str, there: str) -> None:
    assert importlib.import_module("links").rewritten(link, DOCS) == there

"""Signatures that can be read: types lead to where a package's door documents them, and arrays have their short name."""

from __future__ import annotations

import re

from docutils.nodes import Element, Text, TextElement
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

_ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[(~?[\w.]+)\]\]")


def setup(app: Sphinx) -> dict[str, bool]:
    """Look names up that Sphinx does not find under their full name, and shorten signatures."""
    app.connect("missing-reference", _find)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("object-description-transform", _set_colons)
    return {"parallel_read_safe": True}


def _find(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: TextElement) -> Element | None:
    if node["refdomain"] != "py":
        return None
    last = node["reftarget"].rpartition(".")[2]
    objects = env.domains.python_domain.objects
    named = [name for name in objects if name.rpartition(".")[2] == last and name.startswith("jcw_")]
    if not named:
        return None
    name = min(named, key=len)
    found = objects[name]
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, text, name)


def _shorten(
    app: Sphinx,
    what: str,
    name: str,
    member: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """A protocol has no arguments of its own; an array is what its annotation says; a made default is no expression."""
    if getattr(member, "_is_protocol", False):
        return "", None
    return _short(signature), _short(returned)


def _short(text: str | None) -> str | None:
    return text and _ARRAY.sub(r"~numpy.typing.NDArray[\1]", text).replace("<factory>", "...")


def _set_colons(app: Sphinx, domain: str, kind: str, content: Element) -> None:
    """A colon between an argument and what it is, as in the code, for the two hyphens that ``smartquotes`` would make a dash."""
    for text in list(content.findall(Text)):
        if text == " -- ":
            text.parent.replace(text, Text(": "))

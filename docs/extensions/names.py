"""Types in signatures lead to where their package's door documents them, wherever they are defined."""

from __future__ import annotations

from docutils.nodes import Element, TextElement
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def setup(app: Sphinx) -> dict[str, bool]:
    """Look names up that Sphinx does not find under their full name."""
    app.connect("missing-reference", _find)
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

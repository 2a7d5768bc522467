"""What the five packages of this repository register, whatever else is installed."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from sphinx.ext.autodoc.mock import mock

# As they stand in the tree, which an installed copy may lag behind.
sys.path[:0] = [str(source) for source in Path(__file__).parents[2].glob("packages/*/src")]

PACKAGES = ("jcw_core", "jcw_latency", "jcw_kernels", "jcw_search", "jcw_retrain")

with mock(["torch", "jcw_kernels._engine"]):
    from jcw_core.cli.main import build
    from jcw_core.recipe.reference import Table, tables
    from jcw_core.registry import Registry

    REGISTRY = Registry({name: import_module(f"{name}.plugin") for name in PACKAGES}, installed=False)
    COMMAND = build(REGISTRY)
    TABLES: tuple[Table, ...] = tuple(tables(REGISTRY))
    # Names at a door that are found late are found now, while there is something to import as torch.
    for door in map(import_module, PACKAGES):
        for name in door.__all__:
            getattr(door, name)

if REGISTRY.failures:
    raise RuntimeError(f"plugins that the site would leave out: {REGISTRY.failures}")

"""What all benchmarks share: the options that each has, and the file and plot that its rows go to."""

from __future__ import annotations

import os
import platform
from argparse import ArgumentParser
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jcw_core.files import write_json
from jcw_kernels.host import cpu_name

Row = dict[str, Any]

PAPER_TABLE = Path(__file__).resolve().parents[2] / "shared/reference/cortex-a72-resnet18"
"""Folder of the paper's latency table, ``runtime.npy``: where it may stand beside a checkout."""


def command_line(description: str | None, quick: str) -> ArgumentParser:
    """A parser with ``--out`` and ``--quick``; the description is a docstring's first line."""
    parser = ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file; a plot goes beside it")
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def machine(**more: object) -> Row:
    """What ran a benchmark."""
    return {"cpu": cpu_name(), "cores": os.cpu_count(), **more}


def system() -> str:
    """Operating system and architecture."""
    return f"{platform.system()} {platform.machine()}"


def versions(*distributions: str) -> dict[str, str]:
    """Of Python and of installed distributions."""
    return {"python": platform.python_version()} | {name: version(name) for name in distributions}


def write(path: Path, results: Mapping[str, object], figure: Any) -> None:
    """Results as JSON, and a figure of them as PNG beside it."""
    write_json(path, results)
    figure.savefig(path.with_suffix(".png"), dpi=110)


def subplots(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure and an array of its axes, (rows, columns); needs no display."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot.subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **options
    )

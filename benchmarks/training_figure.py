"""What ``training.py`` measured, as tables and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Row, subplots


def name_of(row: Row) -> str:
    """A row in words."""
    size = f"{row['network']} x {row['width']:g}, {row['images']} images of {row['pixels']} pixels"
    more = {
        "step": "{precision}",
        "files": "{workers} workers",
        "processes": "2 processes",
        "peak": "{precision}",
    }[row["kind"]]
    return f"{size}, {more.format(**row)}"


def summary(rows: Sequence[Row]) -> str:
    """The tables of the results page, of what there are rows of."""
    return "\n\n".join(filter(None, (_steps(rows), _ratios(rows), _peaks(rows))))


def _steps(rows: Sequence[Row]) -> str:
    lines = ["| a step of | instructions | supernet ms | plain ms | ratio |", "|---|---|---|---|---|"]
    own = [row for row in rows if row["kind"] == "step"]
    for row in own:
        lines.append(
            f"| {name_of(row)} | {row['capability']} | {row['supernet_ms']:.0f} | {row['plain_ms']:.0f} | {_ratio(row)} |"
        )
    return "\n".join(lines) if own else ""


def _ratios(rows: Sequence[Row]) -> str:
    tables = []
    for kind, title in (
        ("files", "images from files, as a share of the rate from memory"),
        ("processes", "two processes, as a multiple of the rate of one"),
    ):
        own = [
            f"| {name_of(row)} | {row['capability']} | {_ratio(row)} |" for row in rows if row["kind"] == kind
        ]
        if own:
            tables.append("\n".join([f"| {title} | instructions | ratio |", "|---|---|---|", *own]))
    return "\n\n".join(tables)


def _ratio(row: Row) -> str:
    low, high = row["ratio_quartiles"]
    return f"{row['ratio']:.2f} ({low:.2f} to {high:.2f})"


def _peaks(rows: Sequence[Row]) -> str:
    """TFLOP/s of a product of matrices, and what share of it steps reach."""
    lines = [
        "| a step of | on | supernet, images a second | dense, images a second | peak TFLOP/s | supernet's share | dense share |",
        "|---|---|---|---|---|---|---|",
    ]
    own = [row for row in rows if row["kind"] == "peak"]
    for row in own:
        drawn, dense = (1e3 * row["images"] / row[f"{name}_ms"] for name in ("supernet", "dense"))
        lines.append(
            f"| {name_of(row)} | {row['device']} | {drawn:.1f} | {dense:.1f} | {row['peak_tflops']:.3g} "
            f"| {row['supernet_share']:.0%} | {row['dense_share']:.0%} |"
        )
    return "\n".join(lines) if own else ""


TITLES = {
    "step": "supernet's step over a plain one",
    "files": "rate from files over that from memory",
    "processes": "rate of two processes over one",
    "peak": "share of the peak (hollow: supernet)",
}


def draw(rows: Sequence[Row]) -> Any:
    """Ratios with their quartiles, and shares of peaks, of what there are rows of."""
    own = {kind: [row for row in rows if row["kind"] == kind] for kind in TITLES}
    kinds = [kind for kind, found in own.items() if found]
    figure, grid = subplots(len(kinds), 1, 9, 3 + len(rows) / 3)
    for [axis], kind in zip(grid, kinds, strict=True):
        labels = [f"{name_of(row)}, {row['capability']}" for row in own[kind]]
        (_draw_shares if kind == "peak" else _draw_ratios)(axis, own[kind], labels)
        axis.margins(y=0.3)
        axis.set(title=TITLES[kind], xlim=(0, 1) if kind == "peak" else (0.5, 2))
        axis.invert_yaxis()
    return figure


def _draw_ratios(axis: Any, rows: Sequence[Row], labels: Sequence[str]) -> None:
    middle = np.array([row["ratio"] for row in rows])
    low, high = np.array([row["ratio_quartiles"] for row in rows]).T
    axis.errorbar(middle, labels, xerr=[middle - low, high - middle], fmt="o", capsize=2)
    axis.axvline(1, linewidth=0.8, color="grey")


def _draw_shares(axis: Any, rows: Sequence[Row], labels: Sequence[str]) -> None:
    axis.plot([row["dense_share"] for row in rows], labels, "o", color="C0")
    axis.plot([row["supernet_share"] for row in rows], labels, "o", color="C0", fillstyle="none")

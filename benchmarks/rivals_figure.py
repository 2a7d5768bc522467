"""What ``rivals.py`` found, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from ablation_figure import of, spread
from harness import Row, subplots


def methods(rows: list[Row], ours: list[Row], network: str) -> Iterator[tuple[str, list[Row]]]:
    """Rows of each method, the dense network and the joint search of the same seeds first."""
    own = of(rows, "rival", network)
    seeds = {row["seed"] for row in own}
    ours = [row for row in ours if row["seed"] in seeds]
    yield "dense", of(ours, "dense", network)
    joint = [r for r in of(ours, "search", network) if r["variant"] == "joint"]
    yield "joint", [r for r in joint if (r["selection"], r["schedule"]) == ("assisted", "continuous")]
    for name in dict.fromkeys(row["variant"] for row in own):
        yield name, [row for row in own if row["variant"] == name]


def summary(rows: list[Row], ours: list[Row]) -> str:
    """Method, latency, error, seconds."""
    lines: list[str] = []
    for network in dict.fromkeys(row["network"] for row in rows):
        lines += [
            "",
            f"| {network} | seeds | predicted ms | times as fast | test error | seconds to choose | to train |",
        ]
        lines += ["|---" * 7 + "|"]
        for name, found in methods(rows, ours, network):
            asked = {model["requested_ms"] for row in found for model in row["models"]}
            for budget in sorted(asked, key=lambda value: value or 0.0):
                lines += _line(name, found, budget)
    return "\n".join(lines)


def _line(name: str, found: list[Row], budget: float | None) -> list[str]:
    models = [m for r in found for m in r["models"] if m["requested_ms"] == budget and "test_error" in m]
    if not models:
        return []
    faster = np.mean([m["dense_measured_ms"] / m["measured_ms"] for m in models])
    search = [row["seconds"] for row in found if "seconds" in row]
    return [
        f"| {name} | {len(models)} | {np.mean([m['predicted_ms'] for m in models]):.3g} | {faster:.2f} "
        f"| {spread([m['test_error'] for m in models], '.2%')} | {f'{np.mean(search):.0f}' if search else ''} "
        f"| {np.mean([m['training_seconds'] for m in models]):.0f} |"
    ]


def draw(rows: list[Row], ours: list[Row]) -> Any:
    """Test error over predicted latency of each network, by method."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, axes = subplots(1, len(networks), 7 * len(networks), 5)
    for axis, network in zip(axes[0], networks, strict=True):
        for name, found in methods(rows, ours, network):
            points = [
                (m["predicted_ms"], m["test_error"]) for r in found for m in r["models"] if "test_error" in m
            ]
            if points:
                axis.plot(*np.array(sorted(points)).T, "k*" if name == "dense" else "o", label=name)
        axis.set(title=network, xlabel="predicted latency (ms)", ylabel="test error")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8)
    return figure

"""What ``selection.py`` found, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Row, subplots

MODES = ("reestimated", "kept", "none")


def budgeted(rows: list[Row], network: str) -> Iterator[tuple[str, list[float], float]]:
    """Of each search of a network: its name, mean true error at each budget, mean hypervolume over the bound's.

    An error is NaN where a search of some seed had nothing within the budget.
    """
    own = [row for row in rows if row["network"] == network and "errors" in row]
    (best,) = (row for row in own if row["search"] == "bound")
    names = dict.fromkeys(map(name_of, own))
    for name in names:
        found = [row for row in own if name_of(row) == name]
        errors = np.array([row["errors"] for row in found], dtype=np.float64).mean(axis=0)
        yield name, errors.tolist(), float(np.mean([r["hypervolume"] for r in found]) / best["hypervolume"])


def name_of(row: Row) -> str:
    """A search in words, without its seed."""
    if row["search"] == "bound":
        return "bound"
    variant = "" if row["variant"] == "joint" else f" {row['variant']}"
    return f"noise {row['noise']:g}, {row['search']}{variant}, {row['evaluations']}"


def selected(rows: list[Row]) -> Iterator[tuple[str, str, float, float, list[float]]]:
    """Of each noise and strategy: mean hypervolumes of front and last population, and latency quartiles."""
    own = [row for row in rows if "strategy" in row]
    for mode, strategy in dict.fromkeys((row["noise"], row["strategy"]) for row in own):
        found = [row for row in own if (row["noise"], row["strategy"]) == (mode, strategy)]
        front, population = (
            float(np.mean([row[f"{kind}_hypervolume"] for row in found])) for kind in ("front", "population")
        )
        yield (
            mode,
            strategy,
            front,
            population,
            np.mean([r["latency_quartiles"] for r in found], axis=0).tolist(),
        )


def summary(rows: list[Row]) -> str:
    """Tables for people: means over the seeds."""
    lines = []
    for network in dict.fromkeys(row["network"] for row in rows):
        lines.append(f"{network}: true error at each budget, hypervolume as a share of the bound's")
        for name, errors, share in budgeted(rows, network):
            lines.append(f"  {name:36}" + "  ".join(f"{error:.4f}" for error in errors) + f"  {share:.3f}")
    for row in rows:
        if row["search"] == "one generation":
            lines.append(
                f"one plain generation beside its objectives: {row['median_ms']:.1f} ms, {row['largest_ms']:.1f} at most"
            )
    lines.append("noise, strategy: hypervolume of front and last population; latency quartiles")
    for mode, strategy, front, population, quartiles in selected(rows):
        shares = "  ".join(f"{q:.2f}" for q in quartiles)
        lines.append(f"  {mode:12} {strategy:13} {front:.3f}  {population:.3f}   {shares}")
    return "\n".join(lines)


def draw(rows: list[Row]) -> Any:
    """Above, how far searches are from the bound at each budget; below, where selection strategies end."""
    figure, axes = subplots(2, 3, 14, 8)
    networks = list(dict.fromkeys(row["network"] for row in rows))
    _draw_distances(axes[0], rows, networks)
    _draw_selection(axes[1], rows)
    return figure


def _draw_distances(axes: Any, rows: list[Row], networks: list[str]) -> None:
    budgets = {row["network"]: row["budgets_ms"] for row in rows if row["search"] == "bound"}
    best = {network: next(budgeted(rows, network))[1] for network in networks}
    for axis, noise in zip(axes, (0.0, 0.014, 0.03), strict=True):
        for name, errors, _ in budgeted(rows, "resnet18"):
            if name.startswith(f"noise {noise:g},"):
                assisted = "assisted" in name
                gap = np.maximum(np.subtract(errors, best["resnet18"]), 1e-4)
                axis.plot(budgets["resnet18"], gap, "o-" if assisted else "s--", label=name.split(", ", 1)[1])
        axis.set(
            title=f"ResNet-18, noise {noise:g}", xlabel="latency budget (ms)",
            ylabel="true error above the bound", yscale="log",
        )  # fmt: skip
        axis.legend(fontsize=7, title="search, evaluations", title_fontsize=7)


def _draw_selection(axes: Any, rows: list[Row]) -> None:
    own = [row for row in rows if "strategy" in row]
    strategies = list(dict.fromkeys(row["strategy"] for row in own))
    for axis, mode in zip(axes, MODES, strict=True):
        latencies = {
            name: np.concatenate(
                [r["population_latency_ms"] for r in own if (r["noise"], r["strategy"]) == (mode, name)]
            )
            for name in strategies
        }
        axis.hist(list(latencies.values()), bins=14, label=strategies)
        found = {name: population for m, name, _, population, _ in selected(rows) if m == mode}
        volumes = "\n".join(f"{name}: {volume:.3f}" for name, volume in found.items())
        axis.text(
            0.97, 0.62, f"true hypervolume\n{volumes}", transform=axis.transAxes, ha="right", fontsize=8
        )
        axis.set(
            title=f"plain search, noise {mode}", xlabel="latency of the last population (ms)",
            ylabel="architectures (three seeds)",
        )  # fmt: skip
        axis.legend(fontsize=8)

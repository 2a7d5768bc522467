"""What ``selection.py`` found, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Row, subplots

MODES = ("reestimated", "kept", "none")


def budgeted(rows: list[Row], network: str) -> Iterator[tuple[Row, list[float], float]]:
    """Of each search of a network: one of its rows, mean true error at each budget, hypervolume over the bound's.

    An error is NaN where a search of some seed had nothing within the budget.
    """
    own = [row for row in rows if row["network"] == network and "errors" in row]
    (best,) = (row for row in own if row["search"] == "bound")
    groups: dict[str, list[Row]] = {}
    for row in sorted(own, key=lambda row: row.get("noise", -1)):
        groups.setdefault(name_of(row), []).append(row)
    for found in groups.values():
        errors = np.array([row["errors"] for row in found], dtype=np.float64).mean(axis=0)
        yield (
            found[0],
            errors.tolist(),
            float(np.mean([r["hypervolume"] for r in found]) / best["hypervolume"]),
        )


def name_of(row: Row) -> str:
    """A search in words, without its seed."""
    if row["search"] == "bound":
        return "bound |  | "
    variant = "" if row["variant"] == "joint" else f", {row['variant']}"
    return f"{row['search']}{variant} | {row['noise']:g} | {row['evaluations']:,}"


def selected(rows: list[Row]) -> Iterator[tuple[str, str, float, float, list[float]]]:
    """Of each noise and strategy: mean hypervolumes of front and last population, and latency quartiles."""
    own = [row for row in rows if "strategy" in row]
    for mode, strategy in dict.fromkeys((row["noise"], row["strategy"]) for row in own):
        found = [row for row in own if (row["noise"], row["strategy"]) == (mode, strategy)]
        front, population = (
            float(np.mean([row[f"{kind}_hypervolume"] for row in found])) for kind in ("front", "population")
        )
        quartiles = np.mean([row["latency_quartiles"] for row in found], axis=0)
        yield mode, strategy, front, population, quartiles.tolist()


def summary(rows: list[Row]) -> str:
    """The tables of the results page: means over the seeds."""
    lines = []
    for network in dict.fromkeys(row["network"] for row in rows):
        best = next(row for row in rows if row["network"] == network and row["search"] == "bound")
        budgets = " | ".join(f"{budget:.3g} ms" for budget in best["budgets_ms"])
        lines += ["", f"| {network} | noise | evaluations | {budgets} | hypervolume |", "|---" * 9 + "|"]
        for row, errors, share in budgeted(rows, network):
            cells = " | ".join("-" if np.isnan(error) else f"{error:.4f}" for error in errors)
            lines.append(f"| {name_of(row)} | {cells} | {share:.1%} |")
    lines += [
        "",
        "| noise | selection | front | last population | quartiles of its latencies |",
        "|---" * 5 + "|",
    ]
    for mode, strategy, front, population, quartiles in selected(rows):
        shares = ", ".join(f"{q:.2f}" for q in quartiles)
        lines.append(f"| {mode} | {strategy} | {front:.3f} | {population:.3f} | {shares} |")
    lines += [
        f"One plain generation of 64 and 64: {row['median_ms']:.1f} ms beside its objectives."
        for row in rows
        if row["search"] == "one generation"
    ]
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
        for row, errors, _ in budgeted(rows, "resnet18"):
            if row.get("noise") == noise:
                gap = np.maximum(np.subtract(errors, best["resnet18"]), 1e-4)
                style = "o-" if row["search"] == "assisted" else "s--"
                search, _, evaluations = name_of(row).split(" | ")
                axis.plot(budgets["resnet18"], gap, style, label=f"{search}, {evaluations}")
        axis.set(
            title=f"ResNet-18, noise {noise:g}", xlabel="latency budget (ms)",
            ylabel="true error above the bound", yscale="log", ylim=(5e-5, 1),
        )  # fmt: skip
        axis.legend(fontsize=7, title="search, evaluations", title_fontsize=7, loc="upper right", ncols=2)


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

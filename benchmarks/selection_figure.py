"""What ``selection.py`` found, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """Above, how far searches are from the bound at each budget; below, where selection strategies end. Titles conclude."""
    figure, axes = subplots(2, 4, 18, 8)
    budgets, best = next((row["budgets_ms"], row["errors"]) for row in rows if row["search"] == "bound")
    gaps = {
        name_of(row): np.maximum(np.subtract(errors, best), 1e-4)
        for row, errors, _ in budgeted(rows, "resnet18")
    }
    _draw_variants(axes[0][0], budgets, gaps)
    for axis, noise in zip(axes[0][1:], (0.0, 0.014, 0.03), strict=True):
        _draw_noise(axis, budgets, gaps, noise)
    for axis, mode in zip(axes[1], MODES, strict=False):
        _draw_latencies(axis, rows, mode)
    _draw_volumes(axes[1][3], rows)
    return figure


Gaps = Mapping[str, np.ndarray]
"""By ``name_of`` a search, its true errors above the bound's at each budget."""


def _draw_variants(axis: Any, budgets: list[float], gaps: Gaps) -> None:
    names = {"joint": "plain"} | {name: f"plain, {name}" for name in ("channels", "weights", "sequential")}
    found = _present(gaps, {label: f"{name} | 0 | 8,256" for label, name in names.items()})
    title = "Plain searches without noise"
    if len(found) > 1 and "joint" in found:
        parts = np.nanmin([gap for label, gap in found.items() if label != "joint"], axis=0)
        lost = float(np.max(found["joint"] - parts))
        title += f": joint is\n{lost:.4f} behind its best part at most"
    found |= _present(gaps, {"joint, assisted": "assisted | 0 | 8,192"})
    _draw_gaps(axis, budgets, found, title)


def _draw_noise(axis: Any, budgets: list[float], gaps: Gaps, noise: float) -> None:
    searches = [(name, count) for name in ("plain", "assisted") for count in ("8,256", "832", "384")]
    wanted = {f"{name}, {count}": f"{name} | {noise:g} | {count}" for name, count in searches}
    found, title = _present(gaps, wanted), f"Noise {noise:g}"
    if {"assisted, 832", "plain, 8,256"} <= found.keys():
        ahead = int(np.sum(found["assisted, 832"] < found["plain, 8,256"]))
        title += f": 832 assisted evaluations beat\n8,256 plain ones at {ahead} of {len(budgets)} budgets"
    _draw_gaps(axis, budgets, found, title)


def _present(gaps: Gaps, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """What there is of searches by label; a quick run has other numbers of evaluations."""
    return {label: gaps[name] for label, name in names.items() if name in gaps}


def _draw_gaps(axis: Any, budgets: list[float], found: Gaps, title: str) -> None:
    for label, gap in found.items():
        axis.plot(budgets, gap, "o-" if "assisted" in label else "s--", label=label)
    axis.set(
        title=title, xlabel="latency budget of ResNet-18 (ms)", ylabel="true error above the bound",
        yscale="log", ylim=(5e-5, 1),
    )  # fmt: skip
    if found:
        axis.legend(fontsize=8, loc="upper right")


def _draw_latencies(axis: Any, rows: list[Row], mode: str) -> None:
    own = [row for row in rows if "strategy" in row and row["noise"] == mode]
    strategies = list(dict.fromkeys(row["strategy"] for row in rows if "strategy" in row))
    latencies = [
        np.concatenate([row["population_latency_ms"] for row in own if row["strategy"] == name])
        for name in strategies
    ]
    axis.hist(latencies, bins=14, label=strategies)
    low = " and ".join(
        f"{np.mean(found < _LOW_MS):.0%} of {name}'s"
        for name, found in zip(strategies, latencies, strict=True)
        if not name.endswith("64")
    )
    axis.set(
        title=f"Noise {mode}: below {_LOW_MS:.0f} ms are\n{low}", xlabel="latency of the last population (ms)",
        ylabel="architectures (three seeds)",
    )  # fmt: skip
    axis.legend(fontsize=8)


_LOW_MS = 100.0
"""Below which the fastest tenth of the range lies, where populations crowd."""


def _draw_volumes(axis: Any, rows: list[Row]) -> None:
    found = {(mode, name): population for mode, name, _, population, _ in selected(rows)}
    strategies = list(dict.fromkeys(name for _, name in found))
    for index, name in enumerate(strategies):
        at = np.arange(len(MODES)) + (index - 1) * 0.25
        axis.bar(at, [found[mode, name] for mode in MODES], 0.25, label=name)
    gained = [found[mode, "uniform N=4"] - found[mode, "nsga2"] for mode in MODES]
    told = ", ".join(f"{gain:+.3f}" for gain in gained)
    axis.set(
        title=f"Uniform N=4 over NSGA-II:\n{told} of hypervolume", ylabel="true hypervolume of the last population",
        xticks=range(len(MODES)), xticklabels=[f"noise {mode}" for mode in MODES], ylim=(0.7, 1.0),
    )  # fmt: skip
    axis.legend(fontsize=8)

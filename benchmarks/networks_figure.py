"""What ``networks.py`` measured, as tables and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Row, subplots
from pruned_models import DENSITIES
from runtimes import LOADERS


def details(rows: Sequence[Row]) -> str:
    """All runtimes, for people."""
    lines = ["network       density  precision  runtime       median ms   min    max    error"]
    lines += [
        f"{r['network']:13} {r['density']:7}  {r['precision']:9}  {r['runtime']:12} {r['median_ms']:9.2f} "
        f"{r['min_ms']:6.2f} {r['max_ms']:6.2f}  {r['max_error']:.1e}"
        for r in sorted(rows, key=lambda r: (r["network"], -r["density"], r["precision"], r["median_ms"]))
    ]
    return "\n".join(lines)


def summary(run: Row) -> str:
    """The table of the results page for one processor and instruction set."""
    batch = run["machine"].get("batch")

    def shown(ms: float) -> str:
        return f"{1e3 * batch / ms:.0f} a second" if batch else f"{ms:.2f}"

    lines = [
        "| network | precision | density | jcw | fastest peer | ratio | over our float32 |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in sorted(run["comparisons"], key=lambda c: c["precision"]):
        peer = c["peer"] if c["peer_density"] == c["density"] else f"{c['peer']}, dense"
        over = f"{c['over_float32']:.2f}" if c["precision"] != "float32" and "over_float32" in c else ""
        lines.append(
            f"| {c['network']} | {c['precision']} | {c['density']:.0%} | {shown(c['jcw_ms'])} | {shown(c['peer_ms'])} ({peer}) "
            f"| {c['speedup']:.2f} | {over} |"
        )
    means = [f"{value:.2f} in {name}" for name, value in run["geometric_means"].items()]
    return "\n".join([*lines, "", f"Geometric mean of the pruned cases: {', '.join(means)}."])


def draw(runs: Sequence[Row]) -> Any:
    """Median milliseconds with their spread; a line for each run, a panel for each network."""
    networks = list(dict.fromkeys(row["network"] for run in runs for row in run["rows"]))
    figure, grid = subplots(len(runs), len(networks), 5 * len(networks), 3.8 * len(runs))
    for axes, run in zip(grid, runs, strict=True):
        kinds = list(dict.fromkeys((row["runtime"], row["precision"]) for row in run["rows"]))
        more = ", no AMX" if run["machine"].get("amx") is False else ""
        more += f", batch {run['machine']['batch']}" if "batch" in run["machine"] else ""
        for axis, network in zip(axes, networks, strict=True):
            for index, (runtime, precision) in enumerate(kinds):
                own = [
                    r for r in run["rows"]
                    if (r["network"], r["runtime"], r["precision"]) == (network, runtime, precision)
                ]  # fmt: skip
                median = np.array([r["median_ms"] for r in own])
                spread = [median - [r["min_ms"] for r in own], [r["max_ms"] for r in own] - median]
                place = np.array([DENSITIES.index(r["density"]) for r in own])
                axis.bar(
                    place + 0.8 * (index / len(kinds) - 0.4), median, 0.8 / len(kinds), yerr=spread, capsize=2,
                    color=f"C{list(LOADERS).index(runtime)}", hatch={"int8": "//", "float16": ".."}.get(precision, ""),
                    label=runtime + f", {precision}" * (precision != "float32"),
                )  # fmt: skip
            axis.set(xlabel="density", ylabel="ms")
            axis.set_title(f"{network}, {run['machine']['cpu']}, {run['machine']['isa']}{more}", fontsize=10)
            axis.set_xticks(range(len(DENSITIES)), [str(density) for density in DENSITIES])
    most = max((row[0].get_legend_handles_labels() for row in grid), key=lambda found: len(found[1]))
    figure.legend(*most, loc="outside lower center", ncols=len(LOADERS))
    return figure

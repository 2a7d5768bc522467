"""What ``ablation.py`` found, as the tables of the results page and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from harness import Row, subplots

from jcw_retrain.kendall import kendall_tau, tau_interval
from jcw_retrain.rank_fidelity import FEWEST

_T = {2: 12.71, 3: 4.30}
"""95 % points of Student's t for two-sided intervals, by the number of seeds."""


def spread(values: Sequence[float], form: str) -> str:
    """The mean over seeds, with the half-width of its 95 % interval where there are several."""
    mean = f"{np.mean(values):{form}}"
    if len(values) not in _T:
        return mean
    half = _T[len(values)] * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return f"{mean} ± {half:{form}}"


def of(rows: list[Row], kind: str, network: str) -> list[Row]:
    """Rows of one kind and network."""
    return [row for row in rows if (row["kind"], row["network"]) == (kind, network)]


def name_of(row: Row) -> str:
    """A search in words, without its seed."""
    parts = [row["variant"]]
    parts += [row["selection"]] if row["selection"] in ("uniform", "nsga2") else []
    parts += [row["schedule"]] if row["schedule"] == "per-generation" else []
    return ", ".join(parts)


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    """Searches by name, their seeds together, in the order in which they are told of."""
    order = ["joint", "channels", "weights", "sequential", "joint, per-generation", "random"]
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(name_of(row), []).append(row)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99))


def budgets(rows: list[Row], network: str) -> list[float]:
    """Latencies at which models are compared."""
    asked = {model["requested_ms"] for row in of(rows, "search", network) for model in row["models"]}
    return sorted(asked)


def error_at(row: Row, budget: float) -> float | None:
    """Test error of the model for a budget, where it is trained."""
    found = (m.get("test_error") for m in row["models"] if m["requested_ms"] == budget)
    return next(found, None)


def errors(rows: list[Row], network: str) -> Iterator[str]:
    """Hypervolume and test error at matched latencies."""
    asked = budgets(rows, network)
    heads = " | ".join(f"{budget:.3g} ms" for budget in asked)
    yield f"| {network} | seeds | evaluations | hypervolume | {heads} |"
    yield "|---" * (4 + len(asked)) + "|"
    dense = [row["models"][0] for row in of(rows, "dense", network) if "test_error" in row["models"][0]]
    if dense:
        latency = dense[0]["predicted_ms"]
        error = spread([model["test_error"] for model in dense], ".2%")
        yield f"| dense, {latency:.3g} ms: {error} | {len(dense)} |  |  |" + "  |" * len(asked)
    for name, found in groups(of(rows, "search", network)).items():
        if found[0]["selection"] in ("uniform", "nsga2"):
            continue
        volume = spread([row["hypervolume"] for row in found], ".3f")
        cells = []
        for budget in asked:
            known = [e for row in found if (e := error_at(row, budget)) is not None]
            some = f" ({len(known)})" if 0 < len(known) < len(found) else ""
            cells.append(f"{spread(known, '.2%')}{some}" if known else "-")
        count = " to ".join(
            str(n) for n in sorted({row["evaluations"] for row in found})[:: max(1, len(found))]
        )
        yield f"| {name} | {len(found)} | {count} | {volume} | {' | '.join(cells)} |"


def spreads(rows: list[Row], network: str) -> Iterator[str]:
    """Where the last populations of the plain search lie, as shares of the dense network's latency."""
    found = {
        n: f
        for n, f in groups(of(rows, "search", network)).items()
        if f[0]["selection"] in ("uniform", "nsga2")
    }
    if not found:
        return
    yield f"| {network}, selection | seeds | quartiles of latency, ms | hypervolume |"
    yield "|---" * 4 + "|"
    for name, own in found.items():
        quartiles = np.mean([row["latency_quartiles_ms"] for row in own], axis=0)
        volume = spread([row["hypervolume"] for row in own], ".3f")
        yield f"| {name} | {len(own)} | {', '.join(f'{q:.3g}' for q in quartiles)} | {volume} |"


def fidelity(rows: list[Row], network: str) -> Iterator[str]:
    """Kendall's tau between the supernet's losses and those of networks that were trained alone."""
    for row in of(rows, "fidelity", network):
        pairs = [(m["search_loss"], m["error"]) for m in row["models"] if "error" in m]
        if len(pairs) >= FEWEST:
            first, second = np.array(pairs).T
            low, high = tau_interval(first, second, np.random.default_rng(0))
            yield (
                f"Kendall's tau of {network}, seed {row['seed']}: {kendall_tau(first, second):.3f} "
                f"({low:.3f} to {high:.3f}) over {len(pairs)} networks."
            )


def timings(rows: list[Row], network: str) -> Iterator[str]:
    """How far predicted latencies of trained models are from measured ones, and how much faster than dense they are."""
    models = [
        model for row in of(rows, "search", network) for model in row["models"] if "measured_ms" in model
    ]
    dense = next((row["models"][0]["predicted_ms"] for row in of(rows, "dense", network)), None)
    if models and dense:
        scale = [m["measured_ms"] / m["dense_measured_ms"] for m in models]
        off = [abs(s / (m["predicted_ms"] / dense) - 1) for s, m in zip(scale, models, strict=True)]
        yield (
            f"Of {len(models)} exported models of {network}, latencies as shares of the dense network's, "
            f"measured beside it, are {np.mean(off):.1%} from predicted ones in the mean, {max(off):.1%} at most."
        )


def layers(rows: list[Row], network: str) -> Iterator[str]:
    """Latency over density."""
    for row in of(rows, "layers", network):
        shown = [i for i, d in enumerate(row["densities"]) if d in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)]
        heads = " | ".join(f"{row['densities'][i]:.0%}" for i in shown)
        yield f"| {network}, layer | {heads} |"
        yield "|---" * (1 + len(shown)) + "|"
        for layer in row["layers"]:
            cells = " | ".join(f"{1e3 * layer['median_ms'][i]:.1f}" for i in shown)
            yield f"| {layer['layer']} | {cells} |"


def summary(rows: list[Row]) -> str:
    """Everything, network after network; a table that nothing stands in yet is left out."""
    lines: list[str] = []
    for network in dict.fromkeys(row["network"] for row in rows):
        if budgets(rows, network):
            lines += ["", *errors(rows, network)]
        for part in (spreads, layers):
            lines += ["", *part(rows, network)]
        lines += ["", *fidelity(rows, network), *timings(rows, network)]
    return "\n".join(lines)


def draw(rows: list[Row]) -> Any:
    """Of each network: test error over latency by search; latencies of last populations; layers over density."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, axes = subplots(len(networks), 3, 15, 4.5 * len(networks))
    for own, network in zip(axes, networks, strict=True):
        _draw_errors(own[0], rows, network)
        _draw_spreads(own[1], rows, network)
        for row in of(rows, "layers", network):
            for layer in row["layers"]:
                own[2].plot(
                    row["densities"], np.multiply(layer["median_ms"], 1e3), "o-", label=layer["layer"]
                )
            own[2].legend(fontsize=7)
        own[2].set(title=f"{network}: layers", xlabel="density", ylabel="latency (µs)", ylim=(0, None))
    return figure


def _draw_errors(axis: Any, rows: list[Row], network: str) -> None:
    for name, found in groups(of(rows, "search", network)).items():
        points = [
            (m["predicted_ms"], m["test_error"]) for r in found for m in r["models"] if "test_error" in m
        ]
        if points:
            axis.plot(*np.array(sorted(points)).T, "o", label=name)
    dense = [
        (m["predicted_ms"], m["test_error"])
        for r in of(rows, "dense", network)
        for m in r["models"]
        if "test_error" in m
    ]
    if dense:
        axis.plot(*np.array(dense).T, "k*", label="dense")
    axis.set(title=f"{network}: trained models", xlabel="predicted latency (ms)", ylabel="test error")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7)


def _draw_spreads(axis: Any, rows: list[Row], network: str) -> None:
    found = [r for r in of(rows, "search", network) if r["selection"] in ("uniform", "nsga2")]
    names = list(dict.fromkeys(row["selection"] for row in found))
    if names:
        values = [
            np.concatenate([r["population_latency_ms"] for r in found if r["selection"] == n]) for n in names
        ]
        axis.hist(values, bins=12, label=names)
        axis.legend(fontsize=7)
    axis.set(title=f"{network}: last populations", xlabel="latency (ms)", ylabel="architectures")

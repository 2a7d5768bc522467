"""``render``: the page ``report.html``, self-contained, from the data of ``report.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from jcw_core.protocols import ReportSection
from jcw_core.report import budget
from jcw_core.report.charts import STYLE, Series, bars, plot
from jcw_core.space.whole import in_words

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
th { vertical-align: bottom; } td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.over { color: #b42318; } small.over { display: block; }
@media (prefers-color-scheme: dark) { .over { color: #f97066; } }
caption, .note { color: #777; text-align: left; font-size: 13px; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; width: max-content; min-width: 100%; max-width: calc(100vw - 2rem); }
.scroll { position: relative; left: 50%; transform: translateX(-50%); } ul.note { padding-left: 1.2rem; }
@media print {
  body { max-width: none; margin: 0; padding: 0; }
  .scroll { overflow: visible; width: auto; max-width: none; position: static; transform: none; }
  table { font-size: 10px; } th, td { padding: .2rem .3rem; } td:first-child { white-space: normal; overflow-wrap: anywhere; } details, svg, tr { break-inside: avoid; }
}
"""


def render(report: Mapping[str, Any], sections: Sequence[ReportSection]) -> str:
    """The page for a report; ``sections`` draw the parts that plugins added."""
    device = report["device"]
    title = f"{report['network']} on {report['dataset']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="note">Measured on {escape(str(device["name"]))}: {escape(str(device["cpu"]))}, '
        f"{escape(str(device['isa']))}, {device['threads']} thread(s), one image at a time.</p>",
        _headline(report),
        _budgets(report),
        "<h2>Accuracy against latency</h2>",
        _front(report),
        "<h2>Models</h2>",
        _table(report),
        "<h2>What each model keeps</h2>",
        _whole(report),
        *(_bars(report, model, is_open=model is report["models"][0]) for model in report["models"]),
    ]
    for section in sections:
        if section.name in report:
            parts += [f"<h2>{escape(section.title)}</h2>", section.html(report[section.name])]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _headline(report: Mapping[str, Any]) -> str:
    """The fastest model that loses at most one point of accuracy, or of its outputs' squares."""
    baseline = report["baseline"]
    dense = baseline["measured_latency_ms"]
    close = [
        m
        for m in report["models"]
        if m["measured_latency_ms"] and budget.score(m) <= budget.score(baseline) + 0.01
    ]
    if not dense or not close:
        return ""
    best = min(close, key=lambda m: float(m["measured_latency_ms"]))
    change = (budget.score(best) - budget.score(baseline)) * 100
    return (
        f"<p><strong>{escape(best['id'])}</strong> runs in {best['measured_latency_ms']:.3g} ms, "
        f"{dense / best['measured_latency_ms']:.2f} times as fast as the dense network, "
        f"at {change:+.2f} points of {_measure(report)}.</p>"
    )


def _budgets(report: Mapping[str, Any]) -> str:
    """Which models take longer than was requested; nothing where none does."""
    models = report["models"]
    missed = [f"{escape(m['id'])} by {budget.in_words(over)}" for m in models if (over := budget.excess(m))]
    if not missed:
        return ""
    return (
        f'<p class="over"><strong>{len(missed)} of {len(models)} models miss their budget</strong> as measured: '
        f"{', '.join(missed)}.</p>"
    )


def _front(report: Mapping[str, Any]) -> str:
    def point(model: Mapping[str, Any]) -> tuple[float, float]:
        latency = model["measured_latency_ms"] or model["predicted_latency_ms"] or float("nan")
        return float(latency), budget.score(model) * 100

    models = sorted(report["models"], key=point)
    kind = _measure(report)
    found = [(c["latency"], c[kind] * 100) for c in report["front"] if {"latency", kind} <= c.keys()]
    return plot(
        [
            Series("search front (predicted)", found, "line", colour=5),
            Series("trained models", [point(m) for m in models], "both", [_tooltip(m) for m in models], 0),
            Series(
                "dense network", [point(report["baseline"])], titles=[_tooltip(report["baseline"])], colour=1
            ),
        ],
        x_label="latency, ms",
        y_label=f"{kind}, %",
        width=760,
    )


def _tooltip(model: Mapping[str, Any]) -> str:
    return (
        f"{model['id']}: {_ms(model['measured_latency_ms'])} ms, {_measured(model)} {budget.score(model):.2%}"
    )


def _measured(model: Mapping[str, Any]) -> str:
    return "error" if model["test_error"] is not None else "distance"


def _measure(report: Mapping[str, Any]) -> str:
    """What its models are judged by: the test error, or the distance from the dense network's outputs without classes."""
    return _measured(report["baseline"])


def _table(report: Mapping[str, Any]) -> str:
    heads = (
        "model", "requested ms", "predicted ms", "measured ms", "speed-up", "search error", budget.error_head(report),
        "MACs", "weights kept", "file",
    )  # fmt: skip
    dense = report["baseline"]["measured_latency_ms"]
    rows = [report["baseline"], *report["models"]]
    body = "".join(f"<tr>{''.join(_cells(row, dense))}</tr>" for row in rows)
    return (
        '<div class="scroll"><table><thead><tr>'
        + "".join(f"<th>{head}</th>" for head in heads)
        + f"</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(row: Mapping[str, Any], dense: float | None) -> Sequence[str]:
    measured, over = row["measured_latency_ms"], budget.excess(row)
    mark = f'<small class="over">{budget.in_words(over)} over</small>' if over else ""
    cells = (
        escape(row["id"]),
        _ms(row["requested_latency_ms"]),
        _ms(row["predicted_latency_ms"]),
        f"{_ms(measured)}{mark}",
        f"{dense / measured:.2f}" if dense and measured else "-",
        "-" if row["search_error"] is None else f"{row['search_error']:.2%}",
        f"{budget.score(row):.2%}",
        f"{row['macs'] / 1e6:.2f} M",
        f"{row['kept_weights'] / 1e3:.1f} k",
        f"{row['file_bytes'] / 1e3:.0f} kB",
    )
    return [f"<td>{cell}</td>" for cell in cells]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _whole(report: Mapping[str, Any]) -> str:
    """The layers that a search leaves whole, and why."""
    fixed, unpruned = (
        {layer["name"]: layer[key] for layer in report["layers"] if layer[key]}
        for key in ("channels_whole", "weights_whole")
    )
    lines = in_words(fixed, unpruned)
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<p class="note">Kept whole in every model:</p><ul class="note">{items}</ul>' if lines else ""


def _bars(report: Mapping[str, Any], model: Mapping[str, Any], *, is_open: bool) -> str:
    full = {layer["name"]: layer["channels"] for layer in report["layers"]}
    kept = model["kept"]
    chart = bars(
        list(full),
        {
            "channels": [kept[layer]["channels"] / channels for layer, channels in full.items()],
            "density": [kept[layer]["density"] for layer in full],
        },
    )
    return f"<details{' open' if is_open else ''}><summary>{escape(model['id'])}</summary>{chart}</details>"

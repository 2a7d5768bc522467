"""``render``: the page ``report.html``, self-contained, from the data of ``report.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from jcw_core.protocols import ReportSection
from jcw_core.report import budget, durations, facts, models
from jcw_core.report.charts import STYLE as CHART_STYLE
from jcw_core.report.charts import bars
from jcw_core.report.front import front
from jcw_core.report.headline import headline
from jcw_core.report.style import SCRIPT, STYLE
from jcw_core.space.whole import in_words


def render(report: Mapping[str, Any], sections: Sequence[ReportSection]) -> str:
    """The page for a report; ``sections`` draw the parts that plugins added."""
    title = f"{report['network']} on {report['dataset']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="note">Measured on {escape(facts.device_in_words(report["device"]))}, one image at a time.</p>',
        headline(report),
        _budgets(report),
        "<h2>Accuracy against latency</h2>",
        front(report),
        "<h2>Models</h2>",
        models.table(report),
        models.commands(report),
        "<h2>What each model keeps</h2>",
        _whole(report),
        *(_bars(report, model, is_open=model is report["models"][0]) for model in report["models"]),
    ]
    for section in sections:
        if section.name in report:
            parts += [f"<h2>{escape(section.title)}</h2>", section.html(report[section.name])]
    parts += [durations.table(report), "<h2>How it was made</h2>", facts.table(report), facts.recipe(report)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{CHART_STYLE}</style></head>"
        f"<body>{''.join(parts)}<script>{SCRIPT}</script></body></html>\n"
    )


def _budgets(report: Mapping[str, Any]) -> str:
    """Which models take longer than was requested; nothing where none does."""
    asked = report["models"]
    missed = [f"{escape(m['id'])} by {budget.in_words(over)}" for m in asked if (over := budget.excess(m))]
    if not missed:
        return ""
    return (
        f'<p class="over"><strong>{len(missed)} of {len(asked)} models miss their budget</strong> as measured: '
        f"{', '.join(missed)}.</p>"
    )


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

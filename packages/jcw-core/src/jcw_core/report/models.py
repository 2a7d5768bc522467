"""The table of models, the same as CSV, and the command that runs each."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from jcw_core.report import budget


def table(report: Mapping[str, Any]) -> str:
    """A row for each model, the dense network first; the page's script sorts it by ``data-value``.

    Args:
        report: as in ``report.json``.
    """
    heads = (
        "model", "requested ms", "predicted ms", "measured ms", "speed-up", "search error", budget.error_head(report),
        "MACs", "weights kept", "file",
    )  # fmt: skip
    rows = [report["baseline"], *report["models"]]
    dense = report["baseline"]["measured_latency_ms"]
    body = "".join(f"<tr>{''.join(_cells(row, dense))}</tr>" for row in rows)
    return (
        '<div class="scroll"><table class="sortable"><thead><tr>'
        + "".join(f'<th scope="col">{head}</th>' for head in heads)
        + f"</tr></thead><tbody>{body}</tbody></table></div>"
        + f'<p><a download="models.csv" href="data:text/csv;charset=utf-8,{quote(as_csv(report), errors="replace")}">'
        + "These rows as CSV</a></p>"
    )


def as_csv(report: Mapping[str, Any]) -> str:
    """A line for each model with a head line before them; units are in the heads, what is not known is empty."""
    keys = (
        "id", "requested_latency_ms", "predicted_latency_ms", "measured_latency_ms", "search_error", "test_error",
        "distance", "macs", "kept_weights", "file_bytes", "file",
    )  # fmt: skip
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(keys)
    writer.writerows([row[key] for key in keys] for row in (report["baseline"], *report["models"]))
    return text.getvalue()


def commands(report: Mapping[str, Any]) -> str:
    """The command that runs each model that is a ``model.jcw``, as text and with a button that copies it."""
    rows = [row for row in (*report["models"], report["baseline"]) if row["file"].endswith(".jcw")]
    if not rows:
        return ""
    items = "".join(
        f"<dt>{escape(row['id'])}</dt><dd><code>{escape(command(row))}</code> "
        f'<button type="button" class="copy" hidden aria-label="Copy the command of {escape(row["id"])}">Copy</button></dd>'
        for row in rows
    )
    return f'<h2>Run a model</h2><p class="note">From the folder of this page:</p><dl class="commands">{items}</dl>'


def command(row: Mapping[str, Any]) -> str:
    """What to type in the run's folder: classes of a photo, or the layers' times of a network without classes."""
    file = shlex.quote(row["file"] if not row["file"].startswith("-") else f"./{row['file']}")
    return (
        f"jcw kernels profile {file}" if row["test_error"] is None else f"jcw predict-image {file} photo.jpg"
    )


def _cells(row: Mapping[str, Any], dense: float | None) -> Sequence[str]:
    measured, over = row["measured_latency_ms"], budget.excess(row)
    mark = f'<small class="over">{budget.in_words(over)} over</small>' if over else ""
    speed, searched = dense / measured if dense and measured else None, row["search_error"]
    cells: tuple[tuple[Any, str], ...] = (
        (row["requested_latency_ms"], _ms(row["requested_latency_ms"])),
        (row["predicted_latency_ms"], _ms(row["predicted_latency_ms"])),
        (measured, f"{_ms(measured)}{mark}"),
        (speed, "-" if speed is None else f"{speed:.2f}"),
        (searched, "-" if searched is None else f"{searched:.2%}"),
        (budget.score(row), f"{budget.score(row):.2%}"),
        (row["macs"], f"{row['macs'] / 1e6:.2f} M"),
        (row["kept_weights"], f"{row['kept_weights'] / 1e3:.1f} k"),
        (row["file_bytes"], f"{row['file_bytes'] / 1e3:.0f} kB"),
    )
    name = f'<th scope="row" data-value="{escape(row["id"])}">{escape(row["id"])}</th>'
    return [
        name,
        *(f'<td data-value="{"" if value is None else value}">{text}</td>' for value, text in cells),
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

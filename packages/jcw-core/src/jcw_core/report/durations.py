"""How long the stages of a run took: what a report says of it, as a table and as a line."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from jcw_core.run.records import is_amount
from jcw_core.shown import duration


def seconds_of(report: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by stage, in the order in which they ended; none in a report of an older version.

    Args:
        report: as in ``report.json``.
    """
    made = report.get("made")
    found = made.get("seconds") if isinstance(made, dict) else None
    known = found.items() if isinstance(found, dict) else ()
    return {stage: float(value) for stage, value in known if value is not None and is_amount(value)}


def table(report: Mapping[str, Any]) -> str:
    """A heading and a row for each stage; ``""`` where nothing is known.

    Args:
        report: as in ``report.json``.
    """
    rows = _rows(report)
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row">{escape(stage)}</th><td>{taken}</td></tr>' for stage, taken in rows.items()
    )
    return (
        '<h2>How long it took</h2><p class="note">Interruptions left out.</p>'
        f'<table class="facts"><tbody>{body}</tbody></table>'
    )


def line(report: Mapping[str, Any]) -> str:
    """All of it in a line; ``""`` where nothing is known. Names of stages are as the file has them."""
    rows = _rows(report)
    total = rows.pop("all", "")
    return f"took {total}: {', '.join(f'{stage} {taken}' for stage, taken in rows.items())}" if rows else ""


def _rows(report: Mapping[str, Any]) -> dict[str, str]:
    found = seconds_of(report)
    if not found:
        return {}
    return {
        **{stage: duration(value) for stage, value in found.items()},
        "all": duration(sum(found.values())),
    }

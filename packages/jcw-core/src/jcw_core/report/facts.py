"""How a report came about: date, recipe, seed, machine, versions and time."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from jcw_core.protocols import Run
from jcw_core.providers import installed_version
from jcw_core.run.directory import RunDirectory
from jcw_core.run.origin import settings_of

_PACKAGES = ("jcw-core", "jcw-latency", "jcw-search", "jcw-retrain", "jcw-kernels", "numpy", "torch")


def facts(run: Run) -> dict[str, Any]:
    """JSON-ready: ``date`` (UTC, when the report was written), ``recipe``, its ``text`` and what was ``set`` besides,
    ``seed``, ``versions`` by package, and the ``seconds`` that each stage took.
    """
    found = {name: number for name in _PACKAGES if (number := installed_version(name)) is not None}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "recipe": run.recipe.path.name,
        "text": run.recipe.where.text,
        "set": settings_of(run.path(".")),
        "seed": run.recipe.run.seed,
        "versions": {"Python": platform.python_version(), **found},
        "seconds": RunDirectory(run.path(".")).durations(),
    }


def table(report: Mapping[str, Any]) -> str:
    """The facts as HTML, a row each.

    Args:
        report: as in ``report.json``.
    """
    made, device = report["made"], report["device"]
    versions = {**made["versions"], **device["versions"]}
    rows = {
        "Date": made["date"].replace("T", " ").replace("+00:00", " UTC"),
        "Recipe": made["recipe"],
        "Seed": made["seed"],
        "Device": device_in_words(device),
        "Test images": "-" if report["images"] is None else report["images"],
        "Versions": _listed(versions),
    }
    body = "".join(
        f'<tr><th scope="row">{name}</th><td>{escape(str(value))}</td></tr>' for name, value in rows.items()
    )
    return f'<table class="facts"><tbody>{body}</tbody></table>'


def recipe(report: Mapping[str, Any]) -> str:
    """The recipe as it was written, folded; ``""`` in a report of an older version.

    Args:
        report: as in ``report.json``.
    """
    made = report["made"]
    if not made.get("text"):
        return ""
    settings = "".join(f"<li><code>{escape(setting)}</code></li>" for setting in made.get("set", ()))
    besides = f'<p class="note">Set besides:</p><ul class="note">{settings}</ul>' if settings else ""
    return (
        f"<details><summary>The recipe, {escape(made['recipe'])}</summary>"
        f'<pre class="recipe">{escape(made["text"])}</pre>{besides}</details>'
    )


def device_in_words(device: Mapping[str, Any]) -> str:
    """What models were measured on, not escaped."""
    return f"{device['name']}: {device['cpu']}, {device['isa']}, {device['threads']} thread(s)"


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "-"

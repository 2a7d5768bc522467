"""The page of a run that goes on: its stages, the present one, and what was found."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape

from jcw_core.protocols import Showing, Stage
from jcw_core.report.charts import STYLE as CHART_STYLE
from jcw_core.report.style import STYLE
from jcw_core.run.standing import Standing
from jcw_core.shown import duration
from jcw_core.watch.found import Found
from jcw_core.watch.look import STATE, Look
from jcw_core.watch.style import LOOKS, SCRIPT

_RECENT = 10.0
"""Seconds within which something happened just now."""


def page(look: Look, stages: Mapping[str, Stage]) -> str:
    """The whole page. It asks for its content again by a script, or as a whole where there is none."""
    title = escape(look.root.resolve().name)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<noscript><meta http-equiv="refresh" content="5"></noscript>'
        f"<title>{title}</title><style>{STYLE}{CHART_STYLE}{LOOKS}</style></head>"
        f'<body><h1>{title}</h1><p id="lost" class="over" role="alert" hidden>jcw watch has ended, or cannot be reached; '
        f"what follows is the last that it said.</p><main>{content(look, stages)}</main><script>{SCRIPT}</script></body></html>\n"
    )


def content(look: Look, stages: Mapping[str, Stage]) -> str:
    """What changes while the run goes on.

    Args:
        look: at the run.
        stages: that are installed, by name.
    """
    made = {name for stage in look.finished if stage in stages for name in stages[stage].makes}
    working = _working(look.standing, time.time()) if look.standing else _idle(look)
    shown = [_so_far(look, name, stages) for name in ([look.standing.stage] if look.standing else look.begun)]
    return "".join([working, _stages(look), *shown, Found.read(look.root, made).html()])


def _working(standing: Standing, now: float) -> str:
    """The present stage, how far it is, and what its last reports said."""
    known = f": {standing.unit} {standing.done} of {standing.total}" if standing.total else ""
    name = f'aria-label="{escape(standing.stage)}{escape(known)}"'
    bar = f'<progress {name} max="{standing.total}" value="{standing.done}"></progress>' if known else ""
    lately = "".join(f"<li>{escape(line)}</li>" for line in reversed(standing.lately))
    return (
        f"<p><strong>{escape(standing.stage)}</strong>{escape(known)} {bar}</p>"
        f'<p class="note">Stage {standing.place + 1} of {standing.stages}, begun {_ago(now - standing.began)}; '
        f"last heard of {_ago(now - standing.told)}{f', {escape(standing.left)} then' if standing.left else ''}.</p>"
        + (f'<ul class="note">{lately}</ul>' if lately else "")
    )


def _idle(look: Look) -> str:
    where = f" It was interrupted in {escape(', '.join(look.begun))}." if look.begun else ""
    return f"<p>Nothing works on this run now.{where} The command that began it goes on where it was.</p>"


def _stages(look: Look) -> str:
    """A row for each stage that is known of, and how many are to come."""
    rows = {stage: "finished" if taken is None else duration(taken) for stage, taken in look.finished.items()}
    more = 0
    if look.standing:
        rows[look.standing.stage] = "works"
        more = look.standing.stages - look.standing.place - 1
    else:
        rows |= dict.fromkeys(look.begun, "interrupted")
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{said}</td></tr>' for name, said in rows.items()
    )
    rest = f'<p class="note">{more} more to come.</p>' if more > 0 else ""
    return f'<h2>Stages</h2><table class="facts"><tbody>{body}</tbody></table>{rest}'


def _so_far(look: Look, name: str, stages: Mapping[str, Stage]) -> str:
    """What a stage shows of itself; stages of plugins may fail in any way."""
    stage: object = stages.get(name)
    if not isinstance(stage, Showing):
        return ""
    try:
        shown = stage.so_far(look.root / STATE / name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return f'<p class="note">{escape(name)} cannot be shown now ({escape(why)}).</p>'
    return f"<h2>{escape(name)} so far</h2>{shown}" if shown else ""


def _ago(seconds: float) -> str:
    return "just now" if seconds < _RECENT else f"{duration(seconds)} ago"

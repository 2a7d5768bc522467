"""``judge``: whether a latency table is good, doubtful or not to be believed, why, and what mends it.

docs/fidelity.md has the thresholds, and why they are where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jcw_core.run.records import is_finite
from jcw_latency.profiling.time_allowed import ENDED_AFTER
from jcw_latency.table.table import LatencyTable

Level = Literal["good", "doubtful", "not to be believed"]
LEVELS: tuple[Level, ...] = ("good", "doubtful", "not to be believed")

_UNCERTAIN = (0.25, 0.6)
"""Shares of uncertain points above which a table is doubtful, and not to be believed; so below."""
_DRIFT = (0.2, float("inf"))
_MAPE = (0.05, 0.1)
_MAX_ERROR = (0.2, 0.5)
_TAU_BELOW_MACS = (0.02, 0.05)
_LEAST_FOR_TAU = 10
"""Among fewer networks two orders differ by chance."""
_SLOWDOWN = 0.03
"""A machine that differs by more from what it was while profiling is to be looked after before the table."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to think of a latency table.

    Args:
        level: how good it is.
        reasons: what speaks against it, or what it was found to be.
        remedy: a command or more that mends it; ``""`` for a table that was checked and found good.
    """

    level: Level
    reasons: tuple[str, ...]
    remedy: str = ""

    def __str__(self) -> str:
        parts = [", ".join(self.reasons), self.remedy]
        return f"latency table {self.level}: {'; '.join(filter(None, parts))}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return {"level": self.level, "reasons": list(self.reasons), "remedy": self.remedy}

    @classmethod
    def from_dict(cls, document: Any) -> Verdict | None:
        """What ``to_dict`` made, after a journey through JSON; None for anything else."""
        if not isinstance(document, dict) or document.keys() != {"level", "reasons", "remedy"}:
            return None
        level, reasons, remedy = document["level"], document["reasons"], document["remedy"]
        if level not in LEVELS or not isinstance(reasons, list):
            return None
        fits = all(isinstance(text, str) and text.isprintable() for text in (*reasons, remedy))
        return cls(level, tuple(reasons), remedy) if fits else None


def uncertain_share(table: LatencyTable) -> float | None:
    """Share of a table's points that are uncertain; None where it does not say, as one that was imported."""
    merged = table.settings.get("merged")
    parts = merged if isinstance(merged, (list, tuple)) else [table.settings]
    counts: list[list[Any]] = [
        [part.get(key) if isinstance(part, Mapping) else None for key in ("uncertain", "points")]
        for part in parts
    ]
    if not all(is_finite(value) and value >= 0 for pair in counts for value in pair):
        return None
    uncertain, points = (
        (sum(map(float, column)) for column in zip(*counts, strict=True)) if counts else (0, 0)
    )
    return uncertain / points if points else None


def judge(table: LatencyTable, found: Mapping[str, Any] | None = None, *, again: str) -> Verdict:
    """The verdict on a table.

    Args:
        table: as it was profiled.
        found: what ``Fidelity.to_dict`` says of a check of it; None before there is one.
        again: the beginning of a command that profiles it again, up to the name of an option of ``[latency]``.
    """
    share, drift = uncertain_share(table), table.settings.get("drift")
    profile = [
        _reason(share, _UNCERTAIN, "{:.0%} of its points are uncertain"),
        _reason(
            drift if is_finite(drift) else None,
            _DRIFT,
            "the machine was busy or changed its clock: a layer that was timed throughout varied by {:.0%}",
        ),
    ]
    check = [] if found is None else _check_reasons(found)
    against = sorted([reason for reason in (*profile, *check) if reason[0]], reverse=True, key=lambda r: r[0])
    if against:
        remedy = _remedy(table, found, again, is_timing=any(level for level, _ in profile))
        return Verdict(LEVELS[against[0][0]], tuple(words for _, words in against), remedy)
    if found is None:
        known = (
            "how certain its points are is not known"
            if share is None
            else f"{share:.0%} of its points are uncertain"
        )
        return Verdict("good", (known,), "`jcw check` tells how far its predictions are off")
    return Verdict("good", (f"its predictions are off by {found['mape']:.1%} on average",))


def _check_reasons(found: Mapping[str, Any]) -> list[tuple[int, str]]:
    tau, macs_tau = found["kendall_tau"], found["macs_kendall_tau"]
    below = macs_tau - tau if found["networks"] >= _LEAST_FOR_TAU else 0.0
    order = f"it orders networks worse (Kendall's tau {tau:.3f}) than their MACs do ({macs_tau:.3f})"
    return [
        _reason(found["mape"], _MAPE, "its predictions are off by {:.1%} on average"),
        _reason(found["max_error"], _MAX_ERROR, "one prediction is off by {:.0%}"),
        _reason(below, _TAU_BELOW_MACS, order),
    ]


def _reason(value: float | None, limits: tuple[float, float], words: str) -> tuple[int, str]:
    """The level that a value comes to, and the words for it."""
    return (0, "") if value is None else (sum(value > limit for limit in limits), words.format(value))


def _remedy(table: LatencyTable, found: Mapping[str, Any] | None, again: str, *, is_timing: bool) -> str:
    rounds = 2 * max((int(grid.rounds.max(initial=0)) for grid in table.grids), default=0)
    slowdown = found.get("slowdown") if found else None
    seconds = table.settings.get(ENDED_AFTER)
    if is_timing and seconds is not None and is_finite(seconds) and seconds > 0:
        return f"on an idle machine, or with more time, `{again}seconds={2 * seconds:.0f}` profiles it again"
    if is_timing:
        return f"on an idle machine, `{again}rounds={min(max(rounds, 12), 1000)}` profiles it again"
    if slowdown is not None and abs(slowdown) > _SLOWDOWN:
        return (
            f"the machine was {abs(slowdown):.0%} {'slower' if slowdown > 0 else 'faster'} than while profiling: "
            "`jcw check` on an idle machine tells whether the table is wrong"
        )
    return f"`{again}whole_networks=300` profiles it again with more end-to-end runs"

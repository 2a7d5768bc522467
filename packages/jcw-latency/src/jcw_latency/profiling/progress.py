"""What is told of the progress of profiles and checks, and to whom."""

from __future__ import annotations

from collections.abc import Callable

from jcw_core.protocols import Progress

Notify = Callable[[Progress], None]
"""Told how far a profile or a check has come; a ``total`` of 0 makes ``detail`` a message."""


def ignore(event: Progress) -> None:
    """Tell nobody."""

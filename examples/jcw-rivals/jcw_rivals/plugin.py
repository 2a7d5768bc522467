"""What jcw-rivals registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.hookspecs import hookimpl

if TYPE_CHECKING:
    from jcw_core.protocols import Stage


@hookimpl
def jcw_register_stages() -> Sequence[Stage]:
    """Choosing by a rival."""
    from jcw_rivals.stage import RivalStage

    return [RivalStage()]

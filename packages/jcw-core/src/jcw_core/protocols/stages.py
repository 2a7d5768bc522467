"""The steps of a run, and what they tell of their progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jcw_core.protocols.run import Run


class Stage(Protocol):
    """One step of a run.

    Args:
        name: for people and for ``jcw run --until``.
        section: the recipe table that this stage owns, ``""`` for none.
        options: frozen dataclass of that table's keys; ``None`` without a table.
        reads: recipe tables that change its result (``run``, ``network``, ``data``, ``device``,
            ``space`` or another stage's), its own left out; ``"TABLE.KEY"`` for a single key.
        makes: files relative to the run directory.
    """

    @property
    def name(self) -> str:
        """What ``jcw run --until`` calls it."""

    @property
    def section(self) -> str:
        """The recipe table that it owns, or ``""``."""

    @property
    def options(self) -> type[Any] | None:
        """Frozen dataclass of its recipe keys, see ``jcw_core.options``."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Further recipe tables that change its result."""

    @property
    def makes(self) -> tuple[str, ...]:
        """Files that it writes in every run."""

    def needs(self, run: Run) -> tuple[str, ...]:
        """Files that other stages make and this one reads.

        The stage runs after theirs, and is skipped while what it made matches its inputs.
        """

    def run(self, run: Run) -> Sequence[str]:
        """Write all of ``makes``; return the names of further files that were written.

        Checkpoints go to ``run.scratch(name)``. Raises ``JcwError``.
        """


@runtime_checkable
class Delegating(Protocol):
    """What a ``Stage`` may have besides, when plugins that the recipe names do part of its work."""

    def plugins_read(self, run: Run) -> tuple[str, ...]:
        """Recipe tables or keys that change what those plugins do, beside its own ``reads``."""


@runtime_checkable
class Following(Protocol):
    """What a ``Stage`` or a ``ReportSection`` may have besides: files of the run that it reads if they are there.

    No stage makes them; a command or a person does. A stage runs again when they appear or change.
    """

    def follows(self, run: Run) -> tuple[str, ...]:
        """Their names."""


@runtime_checkable
class Spreading(Protocol):
    """What a ``Stage`` may have besides: ``spreads = True`` where all processes of a run work on it together.

    ``run`` is then called in each of them, and writes files in the first alone (``Run.ranks``). Other stages run in the
    first while the others wait.
    """

    @property
    def spreads(self) -> bool:
        """True where it does."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage has come.

    Args:
        stage: its name.
        unit: what is counted: ``"generation"``, ``"epoch"``, ``"layer"``, ``"model"``.
        done, total: counts; a total of 0 makes ``detail`` a message that stays in view.
        detail: a few words, e.g. ``"error 12.3 %"``.
    """

    stage: str
    unit: str
    done: int
    total: int
    detail: str = ""

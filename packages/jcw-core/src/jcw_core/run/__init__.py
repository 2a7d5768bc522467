"""A run: its directory, what its stages work with, their order, and the records that they hand to each other."""

from jcw_core.run.checks import check
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import StageEvent, finished, plan, run
from jcw_core.run.records import Candidate, ChosenModel, Evaluation, Front, Measurements

__all__ = [
    "Candidate",
    "ChosenModel",
    "Context",
    "Evaluation",
    "Front",
    "Measurements",
    "RunDirectory",
    "StageEvent",
    "check",
    "finished",
    "plan",
    "run",
]

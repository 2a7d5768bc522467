"""The files that stages hand to each other: their names, and what is in them."""

from jcw_core.run.records.evaluation import Evaluation, ModelScore
from jcw_core.run.records.exports import read_exports, write_exports
from jcw_core.run.records.front import Candidate, Front
from jcw_core.run.records.measurements import Measurements, ModelTimes
from jcw_core.run.records.models import BASELINE, ChosenModel
from jcw_core.run.records.names import EVALUATION, EXPORTS, FRONT, MEASUREMENTS, MODELS, SUPERNET, TABLE
from jcw_core.run.records.values import is_amount, is_finite

__all__ = [
    "BASELINE",
    "EVALUATION",
    "EXPORTS",
    "FRONT",
    "MEASUREMENTS",
    "MODELS",
    "SUPERNET",
    "TABLE",
    "Candidate",
    "ChosenModel",
    "Evaluation",
    "Front",
    "Measurements",
    "ModelScore",
    "ModelTimes",
    "is_amount",
    "is_finite",
    "read_exports",
    "write_exports",
]

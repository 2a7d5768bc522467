"""Latency you can trust, on your device: profile layers, predict networks, check the prediction."""

from importlib.metadata import version

from jcw_latency.fidelity.check import Fidelity
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.layers import profile
from jcw_latency.profiling.profile import profile_space
from jcw_latency.table.from_arrays import table_from_arrays
from jcw_latency.table.interpolation import interpolate
from jcw_latency.table.predictor import Breakdown, LatencyPredictor
from jcw_latency.table.table import LatencyTable, LayerGrid

__version__ = version("jcw-latency")

__all__ = [
    "Breakdown",
    "Fidelity",
    "LatencyOptions",
    "LatencyPredictor",
    "LatencyTable",
    "LayerGrid",
    "interpolate",
    "profile",
    "profile_space",
    "table_from_arrays",
]

"""Latency you can trust, on your device: profile layers, predict networks, check the prediction."""

from jcw_latency.importing import table_from_arrays
from jcw_latency.interpolate import interpolate
from jcw_latency.options import LatencyOptions
from jcw_latency.predictor import LatencyPredictor
from jcw_latency.profiling import profile
from jcw_latency.table import LatencyTable, LayerGrid
from jcw_latency.whole import profile_space

__all__ = [
    "LatencyOptions",
    "LatencyPredictor",
    "LatencyTable",
    "LayerGrid",
    "interpolate",
    "profile",
    "profile_space",
    "table_from_arrays",
]

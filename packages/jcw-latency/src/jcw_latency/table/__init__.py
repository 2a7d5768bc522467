"""Latency tables: what a profile measured, and predictions from it."""

from jcw_latency.table.from_arrays import table_from_arrays
from jcw_latency.table.interpolation import interpolate
from jcw_latency.table.predictor import LatencyPredictor
from jcw_latency.table.table import LatencyTable, LayerGrid

__all__ = ["LatencyPredictor", "LatencyTable", "LayerGrid", "interpolate", "table_from_arrays"]

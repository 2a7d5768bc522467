"""Profiling: which layers are timed at which sizes, how often, and when a timing is good enough."""

from jcw_latency.profiling.layers import profile
from jcw_latency.profiling.profile import profile_space

__all__ = ["profile", "profile_space"]

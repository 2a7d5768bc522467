"""Which package to install for a name that is not there, and which version is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

PLUGINS = {
    "supernet": "jcw-core[supernet]",
    "error": "jcw-core[supernet]",
    "loss": "jcw-core[supernet]",
    "distance": "jcw-core[supernet]",
    "profile": "jcw-latency",
    "measure": "jcw-latency",
    "latency": "jcw-latency",
    "recorded": "jcw-latency",
    "ssh": "jcw-latency",
    "adb": "jcw-latency",
    "evaluate": "jcw-kernels",
    "host": "jcw-kernels",
    "jcw": "jcw-kernels",
    "search": "jcw-search",
    "macs": "jcw-search",
    "weights": "jcw-search",
    "bytes": "jcw-search",
    "uniform": "jcw-search",
    "nsga2": "jcw-search",
    "retrain": "jcw-retrain",
}
"""What the packages beside jcw-core bring, by name of a plugin, or of a table of a recipe."""

COMMANDS = {
    "profile": "jcw-latency",
    "predict": "jcw-latency",
    "check": "jcw-latency",
    "table": "jcw-latency",
    "kernels": "jcw-kernels",
    "predict-image": "jcw-kernels",
    "search": "jcw-retrain",
}
"""By name of a command of ``jcw``."""


def installed_version(distribution: str) -> str | None:
    """The version of a distribution; None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None

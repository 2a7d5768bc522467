"""The log that ``jcw --verbose`` shows: a line on standard error for each record of our packages and of plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points

from jcw_core.cli.text import echo
from jcw_core.hookspecs import PROJECT


class _Lines(logging.Handler):
    """Prints as commands do: above the progress bars where there are some, and escaped."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        try:
            echo(" ".join(self.format(record).split()), err=True)
        except Exception:  # as every handler of the standard library
            self.handleError(record)


@contextmanager
def shown(verbose: int) -> Iterator[None]:
    """Print records meanwhile, from INFO on; from DEBUG on where ``verbose`` is above 1."""
    handler = _Lines(logging.DEBUG if verbose > 1 else logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    packages = {"jcw_core", *(plugin.module.split(".")[0] for plugin in entry_points(group=PROJECT))}
    before = {logger: logger.level for logger in map(logging.getLogger, sorted(packages))}
    for logger in before:
        logger.setLevel(handler.level)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.removeHandler(handler)
            logger.setLevel(level)

"""Loggers of the packages, which are silent until a program, or ``jcw --verbose``, listens."""

from __future__ import annotations

import logging


def logger(name: str) -> logging.Logger:
    """The logger of a module; that of its package gets a handler that drops everything, as Python asks of libraries.

    The doors of the packages do not do that: logging would make importing them slower.

    Args:
        name: of the module, ``__name__``.
    """
    package = logging.getLogger(name.partition(".")[0])
    if not package.handlers:
        package.addHandler(logging.NullHandler())
    return logging.getLogger(name)

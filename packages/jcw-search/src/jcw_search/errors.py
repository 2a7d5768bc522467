"""``SettingError``: what is wrong with one key of ``[search]``."""

from __future__ import annotations

from jcw_core.errors import JcwError


class SettingError(JcwError):
    """A setting that cannot work.

    Args:
        key: which.
        problem: what was found, and the nearest value that works.
    """

    page = "docs/recipe.md"

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem = key, problem

"""What holds for the tests of all packages."""

from __future__ import annotations

import os

import pytest

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # where only the kernels are tested
    pass
else:
    # A machine that others use is slow for a while; that is no fault of what is tested.
    settings.register_profile(
        "shared machine",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("shared machine")

    FACTOR = int(os.environ.get("JCW_FUZZ", "1"))
    """How many times as many inputs are drawn as a test asks for; `tox run -e fuzz` sets it."""

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Multiply the draws of each test, which once a test has settings of its own only this attribute can."""
        for item in items:
            test = getattr(item, "obj", None)
            if FACTOR > 1 and getattr(test, "is_hypothesis_test", False):
                own = getattr(test, "_hypothesis_internal_use_settings", settings.default)
                if own.max_examples < FACTOR * settings.default.max_examples:
                    more = settings(own, max_examples=own.max_examples * FACTOR)
                    test._hypothesis_internal_use_settings = more

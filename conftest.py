"""What holds for the tests of all packages."""

from __future__ import annotations

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

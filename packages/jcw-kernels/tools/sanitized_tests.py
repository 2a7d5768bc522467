"""Run the kernel tests with AddressSanitizer and UndefinedBehaviorSanitizer watching the engine.

``python tools/sanitized_tests.py CACHE [pytest arguments]`` builds wheel and ``jcw-device`` with the sanitizers in the
folder ``CACHE`` and tests them there. The build takes seven minutes of processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from wheels import (
    SANITIZE,
    SANITIZER_OPTIONS,
    UNDER_SANITIZERS,
    build_wheels,
    command_line,
    install,
    run_tests,
)


def main(arguments: Sequence[str]) -> int:
    """Build, install, test. Returns pytest's exit status."""
    options, tests = command_line(__doc__).parse_known_args(arguments)
    cache = options.cache.resolve()
    site = install(cache, build_wheels(cache, SANITIZE))
    environment = {
        **SANITIZER_OPTIONS,
        "JCW_DEVICE_PROGRAM": str(cache / "build" / "jcw-device"),
        "JCW_C_LIBRARY": str(cache / "build" / "libjcw.so"),
        # The interpreter was built without them, so they have to be loaded before it.
        "LD_PRELOAD": " ".join(library(name) for name in ("libasan.so", "libubsan.so")),
    }
    return run_tests(sys.executable, site, environment, tests, UNDER_SANITIZERS)


def library(name: str) -> str:
    """Where the compiler keeps a sanitizer."""
    compiler = os.environ.get("CXX", "c++")
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

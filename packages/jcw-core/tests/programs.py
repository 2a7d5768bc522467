"""Programs that tests start: where a machine lacks one its tests are skipped, and fail where ``JCW_REQUIRE_TOOLS`` is set.

CI sets it, so that no test is skipped for long without anybody noticing.
"""

from __future__ import annotations

import os
import shutil

import pytest

PACKAGES = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "adb": "adb",
    "bash": "bash",
    "c++": "g++",
    "chromium": "chromium",
    "cmake": "cmake",
    "emcc": "emscripten",
    "g++": "g++",
    "javac": "openjdk-17-jdk-headless",
    "llvm-mca-19": "llvm-19",
    "mksh": "mksh",
    "nm": "binutils",
    "node": "nodejs",
    "pkg-config": "pkg-config",
    "qemu-aarch64": "qemu-user",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-x86_64-static": "qemu-user-static",
    "readelf": "binutils",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "toybox": "toybox",
    "valgrind": "valgrind",
}
"""Debian package of each program."""


def find(program: str) -> str | None:
    """Where a program is; servers are where not every user's path leads."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def need(*programs: str) -> None:
    """Skip the test that runs, or fail it, where a program is missing."""
    missing = _missing(programs)
    if missing:
        lack(missing)


def needs(*programs: str) -> pytest.MarkDecorator:
    """Mark of tests that start these programs.

    Raises:
        pytest.fail.Exception: one is missing and ``JCW_REQUIRE_TOOLS`` is set.
    """
    missing = _missing(programs)
    if missing and _required():
        lack(missing)
    return pytest.mark.skipif(bool(missing), reason=missing)


def lack(reason: str) -> None:
    """Skip the test that runs, or fail it."""
    if _required():
        pytest.fail(f"JCW_REQUIRE_TOOLS is set: {reason}", pytrace=False)
    pytest.skip(reason)


def _required() -> bool:
    return bool(os.environ.get("JCW_REQUIRE_TOOLS"))


def _missing(programs: tuple[str, ...]) -> str:
    packages = sorted({PACKAGES[program] for program in programs if find(program) is None})
    return f"apt-get install -y --no-install-recommends {' '.join(packages)}" if packages else ""

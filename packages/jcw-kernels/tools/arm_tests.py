"""Run the kernel tests as an ARM machine would: cross-build wheel and jcw-device, emulate the processor.

``python tools/arm_tests.py [--sanitize] CACHE [pytest arguments]`` makes what is missing in the folder ``CACHE``:
an arm64 Debian, the packages that the tests need, the wheel. Nothing is emulated while it is made.
Correctness only: times under emulation mean nothing. ``JCW_ARM_CPU`` names another processor that
QEMU knows, such as ``neoverse-n1``. ``--sanitize`` has AddressSanitizer and UndefinedBehaviorSanitizer watch.
Tile edges are those of NEON: the portable kernels meet all of theirs where nothing is emulated, and here what is drawn
at random; the sanitizers watch both. ``JCW_TESTED_ISAS`` names others, such as ``"neon scalar"``.
Where Debian packages are missing it names them and tests nothing; with ``JCW_REQUIRE_TOOLS`` set that is an error.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from wheels import (
    PACKAGE,
    SANITIZE,
    SANITIZER_OPTIONS,
    UNDER_EMULATION,
    UNDER_SANITIZERS,
    build_wheels,
    command_line,
    install,
    run,
    run_tests,
)

APT_PACKAGES = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "qemu-aarch64-static": "qemu-user-static",
    "mmdebstrap": "mmdebstrap",
    "arch-test": "arch-test",
}
"""Debian package of each program that this script starts."""

SUITE, PYTHON = "bookworm", "3.11"
"""A Debian release and its Python, which has to be the one that builds the wheel."""

USERLAND = ("python3", "libpython3-dev", "ca-certificates", "libstdc++6", "libgomp1", "libasan8", "libubsan1")
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64", "linux_aarch64")
TESTED_ISAS = os.environ.get("JCW_TESTED_ISAS", "neon")
SANITIZERS = "/usr/lib/aarch64-linux-gnu/libasan.so.8 /usr/lib/aarch64-linux-gnu/libubsan.so.1"


def main(arguments: Sequence[str]) -> int:
    """Build, install, test. Returns pytest's exit status."""
    parser = command_line(__doc__)
    parser.add_argument("--sanitize", action="store_true", help="have the sanitizers watch")
    options, tests = parser.parse_known_args(arguments)
    sanitize, cache = options.sanitize, options.cache.resolve()
    require_tools()
    root = userland(cache / "root")
    work = cache / ("sanitized" if sanitize else "plain")
    work.mkdir(exist_ok=True)
    site = install(work, cross_build(root, work, sanitize), platform_options())
    device = launcher(work / "jcw-device", work / "build" / "jcw-device", root)
    environment = {"JCW_DEVICE_PROGRAM": device, "JCW_C_LIBRARY": str(work / "build" / "libjcw.so")}
    environment |= SANITIZER_OPTIONS if sanitize else {"JCW_TESTED_ISAS": TESTED_ISAS}
    # The launcher stands where Python looks for its library, so that sys.executable can be started again.
    programs = root / "usr" / "bin"
    preload = SANITIZERS if sanitize else ""
    python = launcher(programs / "python-emulated", programs / f"python{PYTHON}", root, preload)
    return run_tests(python, site, environment, tests, UNDER_SANITIZERS if sanitize else UNDER_EMULATION)


def require_tools() -> None:
    """Exit with one line that says what to install: without an error, unless the environment insists."""
    command = missing_tools()
    if command:
        if os.environ.get("JCW_REQUIRE_TOOLS"):
            sys.exit(f"arm_tests: JCW_REQUIRE_TOOLS is set, install first: {command}")
        print(f"arm_tests: skipped, nothing tested; for an emulated processor: {command}")
        sys.exit(0)
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        sys.exit(
            f"arm_tests: runs under Python {sys.version.split()[0]}, expected {PYTHON}, which Debian {SUITE} has"
        )


def missing_tools() -> str:
    """The command that installs what is not there; ``""`` where all is."""
    missing = [package for program, package in APT_PACKAGES.items() if shutil.which(program) is None]
    return f"apt-get install -y --no-install-recommends {' '.join(missing)}" if missing else ""


def userland(root: Path) -> Path:
    """An arm64 Debian with Python, made once."""
    if not root.exists():
        partial = root.with_name(f"{root.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--variant=extract", "--architectures=arm64", f"--include={','.join(USERLAND)}"]
        run("mmdebstrap", *options, SUITE, str(partial))
        partial.rename(root)
    return root


def cross_build(root: Path, work: Path, sanitize: bool) -> list[Path]:
    """Wheels of jcw-core and, for ARM, of jcw-kernels."""
    options, environment = cross(root)
    return build_wheels(work, options | (SANITIZE if sanitize else {}), environment)


def cross(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of scikit-build-core, and an environment, that build for the machine whose userland is ``root``."""
    options = {
        "cmake.args": f"-DCMAKE_TOOLCHAIN_FILE={PACKAGE / 'cmake' / 'aarch64.cmake'}",
        # Without it CMake asks the interpreter that runs, and takes the headers of this machine.
        "cmake.define.Python_INCLUDE_DIR": str(root / "usr" / "include" / f"python{PYTHON}"),
    }
    target = {
        "ARM_ROOT": str(root),
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{PYTHON.replace('.', '')}-aarch64-linux-gnu.so",
    }
    return options, target


def platform_options(*more: str) -> list[str]:
    """What makes pip choose wheels for ARM, of these platforms and ``more``."""
    options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"]
    return options + [f"--platform={platform}" for platform in (*PLATFORMS, *more)]


def launcher(script: Path, program: Path, root: Path, preload: str = "") -> str:
    """A command that runs an ARM program on the emulated processor, under the command's own name."""
    emulator = f'qemu-aarch64-static -cpu "${{JCW_ARM_CPU:-cortex-a72}}" -L "{root}"'
    if preload:
        emulator += f' -E LD_PRELOAD="{preload}"'
    # Children of an emulated program inherit its environment, and this shell is not one of them.
    script.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {emulator} -0 "$0" "{program}" "$@"\n')
    script.chmod(0o755)
    return str(script)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

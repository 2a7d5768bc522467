"""Builds the packages that the kernel tests need into a folder, for this machine or another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
TEST_PACKAGES = ("numpy", "pluggy", "click", "rich", "safetensors", "pytest", "pytest-xdist", "hypothesis")

SANITIZE = {"cmake.define.JCW_SANITIZE": "ON", "cmake.build-type": "RelWithDebInfo"}
"""Settings of a build that AddressSanitizer and UndefinedBehaviorSanitizer watch."""

SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
"""Environment for it: Python itself frees little of what it holds at its end."""

UNDER_EMULATION = tuple(
    f"--ignore={PACKAGE / 'tests' / name}"
    for name in (
        *("test_limits.py", "test_growth.py", "test_processes.py", "test_sizes.py"),
        *("test_c_library.py", "test_wasm.py", "test_wasm_pictures.py", "test_android.py"),
    )
)
"""An emulator has its own use of memory, and forks and interrupts threads in its own way; sanitizers reserve more memory
than those tests allow; valgrind runs neither. And what is compiled by the tests themselves is neither emulated nor watched."""

UNDER_SANITIZERS = (
    *UNDER_EMULATION,
    "-p",
    "no:faulthandler",
    f"--ignore={PACKAGE / 'tests' / 'test_monotone.py'}",
    "--deselect=packages/jcw-kernels/tests/test_networks.py::test_layouts_share_memory",
)
"""pytest's handler of crashes would come before the sanitizers' report; valgrind cannot run what they watch; and
buffers lie apart, with guards between them."""


def command_line(description: str) -> ArgumentParser:
    """A parser of the folder for what is built; what it leaves goes to pytest."""
    parser = ArgumentParser(
        description=description,
        epilog="All other arguments are pytest's.",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("cache", type=Path, help="folder for what is built, used again the next time")
    return parser


def build_wheels(
    cache: Path, options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> list[Path]:
    """Wheels of jcw-core and jcw-kernels; ``jcw-device`` and ``libjcw.so`` are left in ``cache/build``.

    Args:
        cache: a folder that speeds up the next build.
        options: configuration settings of scikit-build-core.
        environment: what is set for the build of jcw-kernels.
    """
    out = cache / "wheels"
    shutil.rmtree(out, ignore_errors=True)
    settings = {"build-dir": str(cache / "build"), "cmake.define.JCW_DEVICE": "ON"}
    settings |= {"cmake.define.JCW_LIBRARY": "ON", **options}
    build_wheel(PACKAGE.parent / "jcw-core", out)
    build_wheel(PACKAGE, out, settings, environment)
    return sorted(out.glob("*.whl"))


def build_wheel(
    package: Path,
    out: Path,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """A wheel of one package in the folder ``out``, with the build tools of the interpreter that runs.

    Args:
        package: its folder.
        out: where the wheel goes.
        settings: of its build backend.
        environment: what is set meanwhile.
    """
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    flags = [f"--config-settings={key}={value}" for key, value in (settings or {}).items()]
    pip(*build, *flags, str(package), environment=environment)


def install(cache: Path, wheels: Sequence[Path], platform: Sequence[str] = ()) -> Path:
    """A folder for PYTHONPATH: packages from the index once, our wheels each time.

    Args:
        cache: the folder is made in it.
        wheels: our own.
        platform: pip's options for another machine.
    """
    site, complete = cache / "site", cache / "site.complete"
    listed = " ".join(TEST_PACKAGES)
    # Compiled here, as every process of the tests would otherwise compile what it imports, and under emulation.
    into = ["install", "--quiet", "--compile", "--target", str(site)]
    if not complete.exists() or complete.read_text() != listed:
        shutil.rmtree(site, ignore_errors=True)
        pip(*into, *platform, *TEST_PACKAGES)
        complete.write_text(listed)
    pip(*into, "--upgrade", "--no-deps", *platform, *map(str, wheels))
    return site


def run_tests(
    python: str, site: Path, environment: Mapping[str, str], tests: Sequence[str], options: Sequence[str] = ()
) -> int:
    """Run pytest on the kernel tests, or on those that its arguments ``tests`` name. Returns its exit status."""
    named = any(Path(argument.partition("::")[0]).exists() for argument in tests)
    chosen = tests if named else [str(PACKAGE / "tests"), *tests]
    settings = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", *options, *chosen]
    return subprocess.run(command, env=os.environ | settings | dict(environment), check=False).returncode


def pip(*arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Run pip of the interpreter that runs."""
    run(sys.executable, "-m", "pip", *arguments, environment=environment)


def run(*command: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command; exit when it fails."""
    status = subprocess.run(command, env=os.environ | dict(environment or {}), check=False).returncode
    if status:
        sys.exit(f"{' '.join(command[:4])} ... failed with status {status}")

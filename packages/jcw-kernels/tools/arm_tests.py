"""Run the kernel tests as an ARM machine would: cross-build wheel and jcw-device, emulate the processor.

``python tools/arm_tests.py CACHE [pytest arguments]`` makes what is missing in the folder ``CACHE``:
an arm64 Debian, the packages that the tests need, the wheel. Nothing is emulated while it is made.
Correctness only: times under emulation mean nothing. ``JCW_ARM_CPU`` names another processor that
QEMU knows, such as ``neoverse-n1``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

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
TEST_PACKAGES = ("numpy", "pluggy", "click", "rich", "safetensors", "pytest", "hypothesis")

PACKAGE = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str]) -> int:
    """Build, install, test. Returns pytest's exit status."""
    cache = Path(arguments[0]).resolve()
    require_tools()
    root = userland(cache / "root")
    wheels = build_wheels(root, cache)
    site = install(cache, wheels)
    python = root / "usr" / "bin"
    environment = {
        "PYTHONPATH": str(site),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "JCW_DEVICE_PROGRAM": launcher(cache / "jcw-device", cache / "build" / "jcw-device", root),
    }
    # The launcher stands where Python looks for its library, so that sys.executable can be started again.
    interpreter = launcher(python / "python-emulated", python / f"python{PYTHON}", root)
    command = [
        interpreter,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        *(arguments[1:] or [str(PACKAGE / "tests")]),
    ]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


def require_tools() -> None:
    """Exit with one line that says what to install."""
    missing = [package for program, package in APT_PACKAGES.items() if shutil.which(program) is None]
    if missing:
        sys.exit(f"arm_tests: install first: apt-get install -y --no-install-recommends {' '.join(missing)}")
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        sys.exit(
            f"arm_tests: runs under Python {sys.version.split()[0]}, expected {PYTHON}, which Debian {SUITE} has"
        )


def userland(root: Path) -> Path:
    """An arm64 Debian with Python, made once."""
    if not root.exists():
        partial = root.with_name(f"{root.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        include = f"--include={','.join(USERLAND)}"
        run(
            "mmdebstrap",
            "--quiet",
            "--variant=extract",
            "--architectures=arm64",
            include,
            SUITE,
            str(partial),
        )
        partial.rename(root)
    return root


def build_wheels(root: Path, cache: Path) -> list[Path]:
    """Wheels of jcw-core and, cross-built, of jcw-kernels."""
    out = cache / "wheels"
    shutil.rmtree(out, ignore_errors=True)
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    pip(*build, str(PACKAGE.parent / "jcw-core"))
    options = {
        "build-dir": str(cache / "build"),
        "cmake.args": f"-DCMAKE_TOOLCHAIN_FILE={PACKAGE / 'cmake' / 'aarch64.cmake'}",
        # Without it CMake asks the interpreter that runs, and takes the headers of this machine.
        "cmake.define.Python_INCLUDE_DIR": str(root / "usr" / "include" / f"python{PYTHON}"),
        "cmake.define.JCW_DEVICE": "ON",
    }
    target = {
        "ARM_ROOT": str(root),
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{PYTHON.replace('.', '')}-aarch64-linux-gnu.so",
    }
    settings = [f"--config-settings={key}={value}" for key, value in options.items()]
    pip(*build, *settings, str(PACKAGE), environment=target)
    return sorted(out.glob("*.whl"))


def install(cache: Path, wheels: Sequence[Path]) -> Path:
    """A folder for PYTHONPATH: packages from the index once, our wheels each time."""
    foreign = ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"]
    foreign += [f"--platform={platform}" for platform in PLATFORMS]
    site, complete = cache / "site", cache / "site.complete"
    listed = " ".join(TEST_PACKAGES)
    if not complete.exists() or complete.read_text() != listed:
        shutil.rmtree(site, ignore_errors=True)
        pip("install", "--quiet", "--target", str(site), *foreign, *TEST_PACKAGES)
        complete.write_text(listed)
    ours = ["install", "--quiet", "--target", str(site), "--upgrade", "--no-deps"]
    pip(*ours, *foreign, *map(str, wheels))
    return site


def launcher(script: Path, program: Path, root: Path) -> str:
    """A command that runs an ARM program on the emulated processor, under the command's own name."""
    emulator = f'qemu-aarch64-static -cpu "${{JCW_ARM_CPU:-cortex-a72}}" -L "{root}"'
    script.write_text(f'#!/bin/sh\nexec {emulator} -0 "$0" "{program}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def pip(*arguments: str, environment: dict[str, str] | None = None) -> None:
    """Run pip of the interpreter that runs."""
    run(sys.executable, "-m", "pip", *arguments, environment=environment)


def run(*command: str, environment: dict[str, str] | None = None) -> None:
    """Run a command; exit with its status when it fails."""
    status = subprocess.run(command, env=os.environ | (environment or {}), check=False).returncode
    if status:
        sys.exit(f"arm_tests: {' '.join(command[:4])} ... failed with status {status}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

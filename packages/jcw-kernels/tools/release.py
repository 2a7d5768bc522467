"""Build the wheels of the five packages for an index, and try them where nothing of this tree is.

``python tools/release.py DIST CACHE`` empties the folder ``DIST`` and fills it: four wheels for every machine, and jcw-kernels
for x86-64 and, cross-built, for 64-bit ARM, both for this Python and tagged with the oldest C library that will do. Then it
checks their metadata and what must be inside, and installs them in an environment of their own, of an older processor
and of the emulated ARM machine too. ``CACHE`` may be that of ``arm_tests.py``. What cannot be done for want of Debian
packages is said; with ``JCW_REQUIRE_TOOLS`` set it is an error.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from arm_tests import PYTHON, cross, launcher, missing_tools, platform_options, userland
from wheels import PACKAGE, build_wheel, pip, run

PURE = ("jcw-core", "jcw-latency", "jcw-search", "jcw-retrain")
WITHOUT_TORCH = ("jcw-core", "jcw-latency", "jcw-kernels", "jcw-search")
TRIAL = PACKAGE / "tools" / "wheel_trial.py"
LIBC = 34
"""Minor version of the oldest glibc 2 that may be asked for: that of Debian 12 has 36, of Ubuntu 22.04 35, of RHEL 9 34."""
OLD = "Nehalem"
"""A processor of 2008 without AVX, which Python's own numpy still runs on."""
NO_FLAGS = dict.fromkeys(("CFLAGS", "CXXFLAGS", "LDFLAGS"), "")
"""What makes code for the builder's own machine stays out: the kernels choose where they run."""


def main(arguments: Sequence[str]) -> None:
    """Build, check, try."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("dist", type=Path, help="folder for the wheels; what lies in it is removed")
    parser.add_argument("cache", type=Path, help="folder for what is built, used again the next time")
    options = parser.parse_args(arguments)
    dist, cache = options.dist.resolve(), options.cache.resolve()
    shutil.rmtree(dist, ignore_errors=True)
    for name in PURE:
        build_wheel(PACKAGE.parent / name, dist)
    build_engine(dist, cache / "release")
    root = arm_root(cache)
    if root is not None:
        build_engine(dist, cache / "release-arm", *cross(root))
    check(dist)
    trial = cache / "trial"
    shutil.rmtree(trial, ignore_errors=True)
    try_here(dist, trial)
    if root is not None:
        try_on_arm(dist, trial, root)


def build_engine(
    dist: Path,
    work: Path,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """The wheel of jcw-kernels, with the tag of the oldest C library that it runs with."""
    shutil.rmtree(work / "wheels", ignore_errors=True)
    build = {"build-dir": str(work / "build"), **(settings or {})}
    build_wheel(PACKAGE, work / "wheels", build, NO_FLAGS | dict(environment or {}))
    (built,) = (work / "wheels").glob("*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(dist), str(built))


def arm_root(cache: Path) -> Path | None:
    """The userland to build for; None where the tools for it are missing, which is said."""
    command = missing_tools()
    if command or platform.python_version_tuple()[:2] != tuple(PYTHON.split(".")):
        skip("wheel for 64-bit ARM", command or f"run this under Python {PYTHON}")
        return None
    return userland(cache / "root")


def skip(what: str, remedy: str) -> None:
    """Say that something is not done; exit where the environment insists on it."""
    if os.environ.get("JCW_REQUIRE_TOOLS"):
        sys.exit(f"release: JCW_REQUIRE_TOOLS is set, and there is no {what}; {remedy}")
    print(f"release: no {what}; {remedy}")


def check(dist: Path) -> None:
    """Exit at the first wheel that an index would not take, or that lacks what users are promised."""
    found = sorted(dist.glob("*.whl"))
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, found))
    for wheel in found:
        missing = list(lacks(wheel))
        if missing:
            sys.exit(f"{wheel.name}: {', '.join(missing)}")
        print(f"release: {wheel.name}, {wheel.stat().st_size / 1e3:.0f} kB")


def lacks(wheel: Path) -> Iterator[str]:
    """What is not as it must be in a wheel."""
    package = wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    licence = (PACKAGE.parents[1] / "LICENSE").read_bytes()
    if f"{package}/py.typed" not in names:
        yield "no py.typed"
    if licence not in (member(wheel, name) for name in names if name.endswith("/LICENSE")):
        yield "no licence"
    if len(str(metadata(wheel).get_payload())) < 500:
        yield "no README"
    if any(part.startswith(("tests/", "cpp/")) for part in names):
        yield "what is no part of the package"
    tags = wheel.stem.rpartition("-")[2]
    libc = tags.partition("manylinux_2_")[2].partition("_")[0]
    if tags != "any" and not (libc.isdecimal() and int(libc) <= LIBC):
        yield f"tagged {tags}, expected manylinux_2_{LIBC} or older"


def member(wheel: Path, name: str) -> bytes:
    """One file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def metadata(wheel: Path) -> Message:
    """What a wheel says of itself."""
    name, version = wheel.name.split("-")[:2]
    return message_from_bytes(member(wheel, f"{name}-{version}.dist-info/METADATA"))


def needed(dist: Path) -> list[str]:
    """What the packages that do without torch need from elsewhere."""
    found = set[str]()
    for name in WITHOUT_TORCH:
        for wheel in dist.glob(f"{name.replace('-', '_')}-*.whl"):
            found.update(metadata(wheel).get_all("Requires-Dist", []))
    return sorted(one for one in found if not one.startswith("jcw-") and "extra ==" not in one)


def try_here(dist: Path, trial: Path) -> None:
    """Install from the folder alone, and work: here, and on a processor without AVX."""
    run(sys.executable, "-m", "venv", str(trial / "venv"))
    python = trial / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, *needed(dist))
    ours = ["--no-index", "--find-links", str(dist)]
    run(*install, *ours, *WITHOUT_TORCH)
    run(*install, *ours, "--no-deps", "jcw-retrain")
    attempt(trial / "here", [str(python)], "here")
    emulator = shutil.which("qemu-x86_64-static")
    if emulator is None:
        skip("trial without AVX", "apt-get install -y --no-install-recommends qemu-user-static")
    else:
        interpreter = str(Path(sys.executable).resolve())
        site = next((trial / "venv" / "lib").glob("python*/site-packages"))
        attempt(trial / "old", [emulator, "-cpu", OLD, interpreter, "-S"], f"on an emulated {OLD}", site)


def try_on_arm(dist: Path, trial: Path, root: Path) -> None:
    """Install for the emulated machine, and work there."""
    site, (engine,) = trial / "site", dist.glob("jcw_kernels-*aarch64.whl")
    target = [
        "install",
        "--quiet",
        "--compile",
        "--target",
        str(site),
        *platform_options(*(f"manylinux_2_{n}_aarch64" for n in range(17, LIBC + 1))),
    ]
    pip(*target, *needed(dist))
    pure = [str(wheel) for wheel in sorted(dist.glob("*-none-any.whl"))]
    pip(*target, "--upgrade", "--no-index", "--no-deps", *pure, str(engine))
    programs = root / "usr" / "bin"
    python = launcher(programs / "python-emulated", programs / f"python{PYTHON}", root)
    attempt(trial / "arm", [python], "on an emulated Cortex-A72", site)


def attempt(folder: Path, python: Sequence[str], where: str, site: Path | None = None) -> None:
    """Run the trial in an empty folder, away from this tree; ``site`` is where packages lie, if not in the environment."""
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "JCW_ISA")}
    environment |= {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": str(site)} if site else {})
    done = subprocess.run(
        [*python, str(TRIAL)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"release: the wheels failed {where}, with status {done.returncode}")
    print(f"release: tried {where}: {done.stdout.splitlines()[-1]}")


if __name__ == "__main__":
    main(sys.argv[1:])

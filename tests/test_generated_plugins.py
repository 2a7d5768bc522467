"""Packages of every kind that ``jcw new-plugin`` writes: pip installs them, and each passes its own test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcw_core.new_plugin.kinds import KINDS
from jcw_core.new_plugin.names import Names
from jcw_core.new_plugin.package import write


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of each kind."""
    folder = tmp_path_factory.mktemp("packages")
    for kind in KINDS:
        write(folder / f"jcw-own-{kind}", kind, Names(f"jcw-own-{kind}"))
    return folder


@pytest.fixture(scope="module")
def installed(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds them where pip put them."""
    builder, site = tmp_path_factory.mktemp("builder"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
    subprocess.run([*pip, builder, "hatchling>=1.18"], check=True)
    apart = ["--no-deps", "--no-build-isolation", *sorted(packages.iterdir())]
    subprocess.run([*pip, site, *apart], check=True, env=os.environ | {"PYTHONPATH": str(builder)})
    return os.environ | {"PYTHONPATH": str(site)}


@pytest.fixture(scope="module")
def tested(packages: Path, installed: dict[str, str]) -> str:
    """What pytest says of their tests."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
    ]
    return subprocess.run(command, cwd=packages, env=installed, capture_output=True, text=True).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_passes_its_own_test(tested: str, kind: str) -> None:
    lines = [line for line in tested.splitlines() if f"jcw-own-{kind}/tests/test_plugin.py::" in line]
    assert [line.split()[0] for line in lines] == ["PASSED"], tested


def test_all_of_them_are_listed_with_their_distributions(installed: dict[str, str], tmp_path: Path) -> None:
    listing = [sys.executable, "-P", "-m", "jcw_core", "plugins"]
    done = subprocess.run(listing, cwd=tmp_path, env=installed, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    for kind, one in KINDS.items():
        if one.family not in ("", "commands"):
            assert [f"own-{kind}", f"jcw-own-{kind}"] in lines

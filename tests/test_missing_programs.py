"""Where a machine lacks what tests start, they say so and are skipped; CI lets none be skipped for that."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from programs import PACKAGES

ROOT = Path(__file__).parents[1]
ARM = {"aarch64-linux-gnu-g++", "qemu-aarch64-static", "mmdebstrap", "arch-test"}
NEEDY = {
    "tests/test_arm_device.py": "g++-aarch64-linux-gnu",
    "tests/test_arm_benchmarks.py": "llvm-19",
    "packages/jcw-kernels/tests/test_monotone.py": "valgrind",
    "packages/jcw-latency/tests/test_ssh.py": "openssh-client",
}
"""Tests, and a Debian package that some of them take."""


def run(path: Path, required: bool, *command: object) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "JCW_REQUIRE_TOOLS"}
    environment |= {"PATH": str(path)} | ({"JCW_REQUIRE_TOOLS": "1"} if required else {})
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seed", range(4))
def test_the_emulated_processor(seed: int, tmp_path: Path) -> None:
    present = random.Random(seed).sample(sorted(ARM), seed)
    for program in present:
        (tmp_path / program).touch(mode=0o755)
    script = ROOT / "packages" / "jcw-kernels" / "tools" / "arm_tests.py"
    done = run(tmp_path, False, script, tmp_path / "cache")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    said = line.partition("apt-get install -y --no-install-recommends ")[2].split()
    assert sorted(said) == sorted(PACKAGES.get(program, program) for program in ARM - set(present))
    assert "skipped" in line
    done = run(tmp_path, True, script, tmp_path / "cache")
    assert (done.returncode, done.stdout) == (1, "")
    assert all(package in done.stderr for package in said)
    assert not (tmp_path / "cache").exists()


def test_tests_that_lack_a_program_are_skipped_or_fail(tmp_path: Path) -> None:
    command = ["-m", "pytest", "-p", "no:cacheprovider", "-k", "arm or monotone or ssh", *NEEDY]
    done = run(tmp_path, False, *command)
    assert done.returncode == 0, done.stdout
    assert set(NEEDY.values()) <= packages(done.stdout, "SKIPPED")
    done = run(tmp_path, True, *command, "--continue-on-collection-errors")
    assert done.returncode == 1, done.stdout
    assert not packages(done.stdout, "SKIPPED")
    assert set(NEEDY.values()) <= packages(done.stdout, "JCW_REQUIRE_TOOLS is set")


def packages(output: str, word: str) -> set[str]:
    """What is named to be installed in the lines with a word."""
    lines = [line.partition("--no-install-recommends ")[2] for line in output.splitlines() if word in line]
    return set(" ".join(lines).split())

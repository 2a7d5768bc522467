"""The npm package as it is installed, and pages in headless Chromium."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from programs import need

PACKAGE = Path(__file__).resolve().parents[1]
WASM = PACKAGE / "wasm"
MODULES = ["jcw.wasm", "jcw-relaxed.wasm"]


def installed(folder: Path) -> Path:
    """The package, built and put into ``folder / "node_modules"``."""
    need("emcc", "cmake", "node")
    build = PACKAGE / "build" / "wasm"
    build.mkdir(parents=True, exist_ok=True)
    home = folder / "node_modules" / "jcw-wasm"
    with open(build / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            ["emcmake", "cmake", "-S", PACKAGE, "-B", build, "-DJCW_PYTHON=OFF"],
            ["cmake", "--build", build, "--parallel", "2"],
            ["cmake", "--install", build, "--prefix", home],
        ):
            run(*command)
    for name in json.loads((WASM / "package.json").read_text())["files"] + ["package.json"]:
        if not name.endswith(".wasm"):
            shutil.copy(WASM / name, home)
    return home


def run(*words: object) -> str:
    """What a command prints."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def node(home: Path, module: str) -> list[str]:
    """A command that starts Node so that it can run the module.

    Later ones than Node 20 have relaxed SIMD, which has it behind an option, and earlier ones have a draft of it.
    """
    plain, optional = ["node"], ["node", "--experimental-wasm-relaxed-simd"]
    code = f"import('{home / 'index.mjs'}').then(({{relaxedSimd}}) => console.log(relaxedSimd()))"
    for command in (plain, optional):
        said = subprocess.run([*command, "--eval", code], capture_output=True, text=True, check=False).stdout
        if module == MODULES[0] or said == "true\n":
            return command
    pytest.skip(
        f"Node {run('node', '--version').strip()} has no relaxed SIMD, 20 does; Chromium runs {module}"
    )


def demo(home: Path, script: str, page: Path) -> None:
    """The demo page in one file, with a script that uses it."""
    run(sys.executable, WASM / "single_page.py", *(home / module for module in MODULES), page)
    page.write_text(page.read_text().replace("</body>", f"{script}</body>"))


def printed(page: Path, profile: Path) -> dict[str, Any]:
    """What a page in headless Chromium writes to its console, as JSON after the word ``found``."""
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", "--remote-debugging-port=0", page.as_uri(),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as browser:
        watchdog = threading.Timer(180, browser.kill)
        watchdog.start()
        try:
            assert browser.stderr is not None
            lines = []
            for line in browser.stderr:
                said = re.search(r'"found (\{.*\})", source', line)
                if said:
                    result: dict[str, Any] = json.loads(said[1])
                    return result
                lines.append(line)
        finally:
            watchdog.cancel()
            browser.terminate()
    raise AssertionError("".join(lines))


def check_fault(found: Sequence[Any] | None, status: int, message: str) -> None:
    """Hold what was caught, (status, message) of an error or None, to what was expected."""
    assert found is not None
    assert found[0] == status
    assert message in found[1]

"""Runs a benchmark as a test wants it, and reads what it wrote."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *options: str) -> dict:
    out = options[options.index("--out") + 1]
    done = subprocess.run([sys.executable, BENCHMARKS / script, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout, "the table for people"
    assert Path(out).with_suffix(".png").read_bytes().startswith(b"\x89PNG\r\n")
    result = json.loads(Path(out).read_text())
    for one in result.get("runs", [result]):
        assert all(one[key] for key in ("machine", "versions", "rows"))
    return result

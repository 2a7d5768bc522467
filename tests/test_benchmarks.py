"""Benchmarks run, and their files have the fields that readers of ``docs/results`` rely on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *options: str) -> dict:
    out = options[options.index("--out") + 1]
    subprocess.run([sys.executable, BENCHMARKS / script, *options], check=True, capture_output=True)
    assert Path(out).with_suffix(".png").stat().st_size > 0
    return json.loads(Path(out).read_text())


def test_networks(tmp_path):
    pytest.importorskip("onnxruntime")
    options = [
        "--quick",
        "--networks",
        "mobilenet_v1",
        "--input-size",
        "32",
        "--out",
        str(tmp_path / "n.json"),
    ]
    result = run("networks.py", *options)
    assert {"machine", "versions", "rows"} <= result.keys()
    assert {(row["runtime"], row["density"]) for row in result["rows"]} >= {
        (runtime, density) for runtime in ("jcw", "onnxruntime") for density in (1.0, 0.2, 0.1)
    }
    for row in result["rows"]:
        assert row["min_ms"] <= row["median_ms"] <= row["max_ms"]
        assert row["max_error"] < 1e-5
    assert [c["density"] for c in result["comparisons"]] == [1.0, 0.2, 0.1]

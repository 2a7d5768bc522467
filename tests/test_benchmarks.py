"""Benchmarks run, and their files have the fields that readers of ``docs/results`` rely on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jcw_kernels import available_isas

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *options: str) -> dict:
    out = options[options.index("--out") + 1]
    done = subprocess.run([sys.executable, BENCHMARKS / script, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout, "the table for people"
    assert Path(out).with_suffix(".png").read_bytes().startswith(b"\x89PNG\r\n")
    result = json.loads(Path(out).read_text())
    assert all(result[key] for key in ("machine", "versions", "rows"))
    return result


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
    assert {(row["runtime"], row["density"]) for row in result["rows"]} >= {
        (runtime, density) for runtime in ("jcw", "onnxruntime") for density in (1.0, 0.2, 0.1)
    }
    for row in result["rows"]:
        assert row["min_ms"] <= row["median_ms"] <= row["max_ms"]
        assert row["max_error"] < 1e-5
    assert [c["density"] for c in result["comparisons"]] == [1.0, 0.2, 0.1]


def test_layers(tmp_path):
    result = run("layers.py", "--quick", "--out", str(tmp_path / "l.json"))
    rows = result["rows"]
    assert {"jcw-kernels", "python"} <= result["versions"].keys()
    assert {row["isa"] for row in rows} == set(available_isas())
    assert {row["layer"] for row in rows} == {"1 x 1", "3 x 3", "depthwise"}
    assert {row["density"] for row in rows if row["layer"] != "depthwise"} == {1.0, 0.7, 0.4, 0.3, 0.2, 0.1}
    for row in rows:
        assert 0 < row["min_us"] <= row["median_us"] <= row["max_us"]
        assert row["share_of_peak"] == pytest.approx(row["gflops"] / row["peak_gflops"])
        # Work that is left, not dense-equivalent: two operations for each multiply-accumulate that is kept.
        macs = row["gflops"] * row["median_us"] * 1e3 / 2
        assert macs == pytest.approx(kept_macs(row), rel=0.05)


def kept_macs(row):
    taps = {"1 x 1": 1, "3 x 3": 9, "depthwise": 9}[row["layer"]]
    inputs = 1 if row["layer"] == "depthwise" else row["in_channels"]
    return row["density"] * taps * inputs * row["out_channels"] * (row["size"] / row["stride"]) ** 2


MODEL_TOOLS = {"qemu-aarch64": "qemu-user", "llvm-mca-19": "llvm-19"}


def test_arm_model(aarch64_program, tmp_path):
    missing = [package for command, package in MODEL_TOOLS.items() if shutil.which(command) is None]
    if missing:
        pytest.skip(f"the model counts instructions and cycles; install {' '.join(missing)}")
    # In the folder where the program was built, so that it is not built twice.
    options = ["--quick", "--build", str(aarch64_program.parent), "--out", str(tmp_path / "a.json")]
    result = run("arm_model.py", *options)
    assert {"compiler", "llvm-mca"} <= result["versions"].keys()
    rows = result["rows"]
    assert len({row["layer"] for row in rows}) == len(rows) == 20, "the convolutions of ResNet-18"
    for row in rows:
        assert row["instructions"] > 0
        assert 0 < row["modelled_low_ms"] <= row["modelled_high_ms"]
        assert 0 < row["fmla_share_of_loop_cycles"] <= 1
        assert 0 < row["busiest_loop"]["fmla_issue"] <= 1
    (total,) = result["totals"]
    assert total["modelled_high_ms"] == pytest.approx(sum(row["modelled_high_ms"] for row in rows))

"""Benchmarks run, and their files have the fields that readers of ``docs/results`` rely on."""

import errno
import importlib
import itertools
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmark_files import BENCHMARKS, run
from programs import need

from jcw_kernels import available_isas, chosen_isa


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
    [halves] = run("networks.py", *options, "--precisions", "float32", "float16")["runs"]
    errors = [row["max_error"] for row in halves["rows"] if row["precision"] == "float16"]
    assert len(errors) >= 3
    assert 0 < min(errors) <= max(errors) < 1e-2
    [result] = run("networks.py", *options)["runs"]
    assert {(row["runtime"], row["precision"], row["density"]) for row in result["rows"]} >= set(
        itertools.product(("jcw", "onnxruntime"), ("float32", "int8"), (1.0, 0.2, 0.1))
    )
    for row in result["rows"]:
        assert row["min_ms"] <= row["median_ms"] <= row["max_ms"]
        assert row["max_error"] < (1e-5 if row["precision"] == "float32" else 0.2)
    assert [(c["precision"], c["density"]) for c in result["comparisons"]] == list(
        itertools.product(("float32", "int8"), (1.0, 0.2, 0.1))
    )
    _, batch = run("networks.py", *options, "--precisions", "float32", "--batch", "3")["runs"]
    assert batch["machine"]["batch"] == 3
    assert max(row["max_error"] for row in batch["rows"]) < 1e-5


def test_runs_of_other_machines_stay(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    others = importlib.import_module("networks").others
    path, ran = tmp_path / "n.json", {"cpu": "one", "isa": "avx2"}
    assert others(path, ran) == []
    runs = [
        {"machine": ran | changed}
        for changed in ({}, {"cpu": "two"}, {"isa": "avx512"}, {"amx": False}, {"batch": 8})
    ]
    path.write_text(json.dumps({"runs": runs}))
    assert others(path, ran) == runs[1:]


ASKS_FOR_AMX = """
import ctypes
from without_amx import ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, forbid_amx
forbid_amx()
libc = ctypes.CDLL(None, use_errno=True)
TILE_DATA, ARCH_GET_CPUID = 18, 0x1011
print(libc.syscall(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, TILE_DATA), ctypes.get_errno(), libc.syscall(ARCH_PRCTL, ARCH_GET_CPUID))
"""


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="Linux on x86-64 has the call"
)
def test_amx_can_be_refused_and_nothing_else():
    command = [sys.executable, "-c", ASKS_FOR_AMX]
    done = subprocess.run(command, cwd=BENCHMARKS, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["-1", str(errno.EPERM), "1"]


SEES_AVX2 = """
import os, subprocess, sys
from pathlib import Path
from avx2_only import avx2_only
os.environ |= avx2_only(Path(sys.argv[1]))
asked = "import jcw_kernels, threading; threading.Thread(target=lambda: print(jcw_kernels.chosen_isa())).start()"
subprocess.run([sys.executable, "-c", asked], check=True)
read = "import os; r = open('/proc/cpuinfo').read(), os.popen('cat /proc/cpuinfo').read(); print(*[' avx512' in x for x in r], *[' avx2 ' in x for x in r])"
subprocess.run([sys.executable, "-c", read], check=True)
for handler in ("", "import faulthandler; faulthandler.enable(); "):
    fault = handler + "import ctypes; ctypes.string_at(0)"
    done = subprocess.run([sys.executable, "-c", fault], capture_output=True, text=True)
    print(done.returncode, done.stderr.startswith("Fatal Python error"))
"""


def can_hide_instructions() -> bool:
    """Whether CPUID can be made to fault here, by a compiler that is here."""
    flags = Path("/proc/cpuinfo")
    return shutil.which("cc") is not None and flags.is_file() and "cpuid_fault" in flags.read_text()


@pytest.mark.skipif(not can_hide_instructions(), reason="this processor or system cannot let CPUID fault")
def test_instructions_after_avx2_can_be_hidden_and_other_faults_stay(tmp_path):
    command = [sys.executable, "-c", SEES_AVX2, str(tmp_path)]
    done = subprocess.run(command, cwd=BENCHMARKS, check=True, capture_output=True, text=True)
    died = str(-signal.SIGSEGV)
    flags = ["False", "False", "True", "True"]
    assert done.stdout.split() == ["avx2", *flags, died, "False", died, "True"]


COMPUTES = """
import time
import numpy as np
from avx2_only import milliseconds_since_avx512
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_kernels import compile_model
net = NetworkBuilder("net", (64, 32, 32))
net.conv("conv", 64, 3)
network = net.build()
weights = {name: np.ones(shape, np.float32) for name, shape in network.parameter_shapes.items()}
program, begin, used = compile_model(Model(network, weights)), time.monotonic(), False
while not used and time.monotonic() < begin + 3:
    program.run(np.ones((1, 64, 32, 32), np.float32))
    # Linux looks when another process takes its turn; what was loaded before may have used them.
    used = time.monotonic() > begin + 1 and milliseconds_since_avx512("self") < 500
print(used)
"""


@pytest.mark.skipif(
    not can_hide_instructions() or not Path("/proc/self/arch_status").is_file() or chosen_isa() != "avx512",
    reason="Linux says nothing of AVX-512 here",
)
def test_who_uses_avx512_is_told_from_who_does_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    command = [sys.executable, "-c", COMPUTES]
    told = []
    for hidden in ({}, importlib.import_module("avx2_only").avx2_only(tmp_path)):
        done = subprocess.run(
            command, cwd=BENCHMARKS, env=os.environ | hidden, check=True, capture_output=True, text=True
        )
        told.append(done.stdout.strip())
    assert told == ["True", "False"]


STUB_OF_JCW = """
export async function load(bytes) {
  return { run: () => new Float32Array(1000).fill(1.5) };
}
"""
STUB_OF_PEER = """
export const env = { wasm: {}, versions: { web: "0.1" } };
export class Tensor {}
export const InferenceSession = {
  create: async () => ({
    inputNames: ["in"],
    outputNames: ["out"],
    run: async () => ({ out: { data: new Float32Array(1000).fill(2) } }),
  }),
};
"""


@pytest.mark.parametrize("host", ["node", "chromium"])
def test_wasm(host, tmp_path):
    """Of hosts and page; the packages in them are stand-ins."""
    need(host)
    dist = tmp_path / "peers" / "node_modules" / "onnxruntime-web" / "dist"
    dist.mkdir(parents=True)
    for name in ("ort.node.min.mjs", "ort.wasm.min.mjs"):
        (dist / name).write_text(STUB_OF_PEER)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "index.mjs").write_text(STUB_OF_JCW)
    options = ["--quick", "--networks", "mobilenet_v1", "--input-size", "32", "--hosts", host]
    options += ["--package", str(tmp_path / "package"), "--peers", str(tmp_path / "peers")]
    result = run("wasm.py", *options, "--out", str(tmp_path / "w.json"))
    assert {(row["runtime"], row["density"]) for row in result["rows"]} == set(
        itertools.product(("jcw", "onnxruntime-web"), (1.0, 0.2, 0.1))
    )
    for row in result["rows"]:
        assert row["min_ms"] <= row["median_ms"] <= row["max_ms"]
        assert row["error"] == pytest.approx(0.25)
    assert [c["density"] for c in result["comparisons"]] == [1.0, 0.2, 0.1]
    assert all(
        c["host"].startswith({"node": "Node v", "chromium": "Chrome/"}[host]) for c in result["comparisons"]
    )


def test_a_runtime_that_dies_is_named(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from workers import Worker

    command = [sys.executable, "-c", "import sys; input(); sys.exit(1)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        worker = Worker("peer", process, "1.0", np.zeros((1, 2)))
        with pytest.raises(RuntimeError, match="peer, model 0: the process ended with status 1"):
            worker.seconds(0, 0.1)


def test_threads(tmp_path):
    result = run("threads.py", "--quick", "--out", str(tmp_path / "t.json"))
    assert [row["density"] for row in result["rows"]] == [1.0, 0.2, 0.1]
    for row in result["rows"]:
        assert row["min_ms"] <= row["median_ms"] <= row["max_ms"]
        low, high = row["speedup_quartiles"]
        assert 0 < low <= row["speedup"] <= high


def test_latency(tmp_path):
    pytest.importorskip("scipy")
    options = ["--quick", "--networks", "mobilenet_v1", "--out", str(tmp_path / "l.json")]
    rows = run("latency.py", *options)["rows"]
    (speed,) = (row for row in rows if row["kind"] == "speed")
    assert speed["max_relative_difference"] < 1e-12
    fidelity = [row for row in rows if row["kind"] == "fidelity"]
    assert [row["grid"] for row in fidelity] == ["full", "adaptive"]
    for row in fidelity:
        assert row["networks"] == len(row["points"]) == 5
        assert row["mape"] <= row["max_error"]
        # The same measurements for both grids.
        assert [p["measured_ms"] for p in row["points"]] == [p["measured_ms"] for p in fidelity[0]["points"]]


def test_selection(tmp_path):
    table = BENCHMARKS.parents[1] / "shared/reference/cortex-a72-resnet18"
    if not (table / "runtime.npy").is_file():
        pytest.skip(f"the published latency table is not at {table}")
    result = run("selection.py", "--quick", "--table", str(table), "--out", str(tmp_path / "s.json"))
    noises, strategies = ("reestimated", "kept", "none"), ("uniform N=4", "uniform N=64", "nsga2")
    rows = [row for row in result["rows"] if "strategy" in row]
    assert [(row["noise"], row["strategy"]) for row in rows] == list(itertools.product(noises, strategies))
    for row in rows:
        assert row["evaluated"] == 64 * (1 + row["generations"])
        front, population = row["front_hypervolume"], row["population_hypervolume"]
        assert 0 < population < 1
        # Without noise the front is the best of all that was ever seen.
        assert population <= front < 1 if row["noise"] == "none" else 0 < front < 1
        assert sorted(row["latency_quartiles"]) == row["latency_quartiles"]
    bound, *searched = (row for row in result["rows"] if "errors" in row)
    assert bound["search"] == "bound"
    assert sorted(bound["errors"], reverse=True) == bound["errors"]
    assert {row["search"] for row in searched} == {"assisted", "plain"}
    for row in searched:
        # The corner of its second phase is one more.
        assert row["evaluated"] <= row["evaluations"] + (row["variant"] == "sequential")
        assert row["hypervolume"] < bound["hypervolume"]
        for error, best in zip(row["errors"], bound["errors"], strict=True):
            assert error is None or error >= best, "nothing is better than the bound"
    assert not list(tmp_path.glob("*.partial"))


def test_a_benchmark_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    resumable = importlib.import_module("resumable")
    settings, done = [{"seed": seed} for seed in range(5)], []

    def measure(setting):
        done.append(setting["seed"])
        return {"value": setting["seed"] ** 2}

    out = tmp_path / "r.json"
    rows = resumable.rows_of(settings, measure, out)
    assert [next(rows)["value"] for _ in range(3)] == [0, 1, 4]
    partial = tmp_path / "r.json.partial"
    partial.write_text(partial.read_text()[:-4])
    assert [row["value"] for row in resumable.rows_of(settings, measure, out)] == [0, 1, 4, 9, 16]
    assert done == [0, 1, 2, 2, 3, 4], "what was cut off is measured again"
    resumable.forget(out)
    assert not partial.exists()


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


def test_webassembly_is_compared_with_the_faster_of_dense_and_pruned(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    wasm = importlib.import_module("wasm")
    ms = [[10, 20, 4, 30, 5, 18], [12, 22, 6, 28, 7, 16], [11, 21, 5, 29, 6, 17]]
    outputs = [[1, 2], [1, 2], [1, 4.5], [1, 5], [0, 1], [0, -2]]
    said = {"host": "Node", "onnxruntime_web": "1", "ms": ms, "outputs": outputs}
    rows = list(wasm.rows_of("net", said))
    elsewhere = list(wasm.rows_of("net", said | {"host": "Chrome", "ms": [[1] * 6]}))
    assert [row["median_ms"] for row in rows] == [11, 21, 5, 29, 6, 17]
    assert [(row["min_ms"], row["max_ms"]) for row in rows[:2]] == [(10, 12), (20, 22)]
    assert [row["error"] for row in rows[::2]] == [0, 0.1, 1.5]
    found = [(row["density"], row["peer_ms"], row["speedup"]) for row in wasm.compare([*elsewhere, *rows])]
    assert found[:3] == [(1.0, 1, 1), (0.2, 1, 1), (0.1, 1, 1)]
    assert found[3:] == [(1.0, 21, 21 / 11), (0.2, 21, 21 / 5), (0.1, 17, 17 / 6)]

"""Benchmarks run, and their files have the fields that readers of ``docs/results`` rely on."""

import importlib
import io
import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from programs import needs

from jcw_core.datasets.cifar10 import CLASSES
from jcw_core.errors import JcwError
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
    run("networks.py", *options, "--precisions", "float32")
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


def test_runs_of_other_machines_stay(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    others = importlib.import_module("networks").others
    path, ran = tmp_path / "n.json", {"cpu": "one", "isa": "avx2"}
    assert others(path, ran) == []
    runs = [{"machine": ran | changed} for changed in ({}, {"cpu": "two"}, {"isa": "avx512"})]
    path.write_text(json.dumps({"runs": runs}))
    assert others(path, ran) == runs[1:]


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


def test_training(tmp_path):
    for package in ("torch", "PIL.Image", "matplotlib"):
        pytest.importorskip(package)
    rows = run("training.py", "--quick", "--out", str(tmp_path / "t.json"))["rows"]
    assert [row["kind"] for row in rows] == ["step", "files", "files", "processes"]
    assert [row["workers"] for row in rows[1:3]] == [0, 1]
    assert len({row["capability"] for row in rows}) == 1
    for row in rows:
        low, high = row["ratio_quartiles"]
        assert 0 < low <= row["ratio"] <= high


def test_rows_of_other_instruction_sets_stay(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    others = importlib.import_module("training").others
    path = tmp_path / "t.json"
    assert others(path, "AVX2") == []
    path.write_text(json.dumps({"rows": [{"capability": "AVX2"}, {"capability": "AVX512"}]}))
    assert others(path, "AVX2") == [{"capability": "AVX512"}]


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_plain_modules_compute_the_network(name, monkeypatch):
    torch = pytest.importorskip("torch")
    from jcw_core.registry import Registry
    from jcw_core.training.module import Slimmable

    monkeypatch.syspath_prepend(BENCHMARKS)
    plain_of = importlib.import_module("training").Plain
    network = Registry().backbones[name].build(num_classes=5, width=0.25, input_size=224)
    module = Slimmable(network, np.random.default_rng(0))
    plain = plain_of(network)
    own = {key.replace("/", "."): value for key, value in plain.state_dict().items()}
    for key, value in own.items():
        if not key.endswith("num_batches_tracked"):
            value.copy_(module.state_dict()[key.removeprefix("layers.")])
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        torch.testing.assert_close(plain(images), module(images))


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


PRETRAINED = """
[network]
backbone = "mobilenet_v1"
width = 0.25
weights = "w.safetensors"
[data]
name = "image_folder"
path = "images"
size = 32
augment = false
train_split = "val"
train_classes = "::2"
test_split = "val"
test_classes = "1::2"
holdout = 8
[device]
name = "host"
[latency]
widths = 2
densities = 2
[supernet]
mode = "post-training"
calibration_images = 16
[search]
objectives = ["latency", "distance"]
[retrain]
init = "supernet"
teacher = "dense"
distillation = { labels = 0, logits = 0, features = 1, frozen_batch_norm = true }
calibration_images = 16
pretrain = { epochs = 0 }
admm = { epochs = 0 }
finetune = { epochs = 1, batch_size = 8, lr = 0.001 }
"""


def test_pretrained(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch")
    from jcw_core.registry import Registry
    from jcw_core.training.module import Slimmable

    rng = np.random.default_rng(0)
    for number in range(32):
        folder = tmp_path / "images" / "val" / str(number % 8)
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (32, 32, 3)).astype(np.uint8)
        image.fromarray(pixels).save(folder / f"{number}.png")
    backbone = Registry().backbones["mobilenet_v1"]
    module = Slimmable(backbone.build(num_classes=8, width=0.25, input_size=32), rng)
    importlib.import_module("safetensors.torch").save_file(module.state_dict(), tmp_path / "w.safetensors")
    recipe, out = tmp_path / "recipe.toml", tmp_path / "out" / "p.json"
    recipe.write_text(PRETRAINED)
    out.parent.mkdir()
    options = [str(recipe), "--quick", "--runs", str(tmp_path / "runs"), "--out", str(out)]
    part = run("pretrained.py", *options, "--minutes", "0")
    assert [row["method"] for row in part["rows"]] == ["dense"], "no other was begun"
    options.append("--int8")
    part["rows"] += run("pretrained.py", *options, "--minutes", "0")["rows"]
    whole = run("pretrained.py", *options, "--set", "data.path=images")
    assert whole["set"] == []
    rows = whole["rows"]
    assert len(rows) == whole["models_to_make"] > 4
    assert {row["method"] for row in rows} <= {
        "dense",
        "joint",
        "uniform_width",
        "uniform_density",
        "uniform_both",
    }
    assert {"dense", "joint"} < {row["method"] for row in rows}
    # What was made before is told again; only latencies are measured anew.
    told = [
        {k: v for k, v in row.items() if "latency" not in k or "predicted" in k}
        for row in (*part["rows"], rows[0])
    ]
    assert told[1] == told[2]
    assert told[1].keys() - told[0].keys() == {"int8_top1"}
    joint = [row["predicted_latency_ms"] for row in rows if row["method"] == "joint"]
    assert joint == sorted(joint, reverse=True)
    for row in rows:
        assert row.keys() == {
            "method", "predicted_latency_ms", "measured_latency_ms", "latency_quartiles_ms", "top1_one_shot", "top1",
            "int8_latency_ms", "int8_top1", "file_bytes", "seconds", *(["avx2_latency_ms"] if "avx512" in available_isas() else []),
        }  # fmt: skip
        assert row["measured_latency_ms"] > 0
        assert 0 <= row["top1"] <= 1
        assert row["file_bytes"] <= rows[0]["file_bytes"]
    assert not list(out.parent.glob("*.partial"))


def cifar(path):
    """A CIFAR-10 of a few random images: the classes' colours differ, so that there is something to learn."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    colours = rng.integers(40, 216, (len(CLASSES), 3))
    with zipfile.ZipFile(path, "w") as archive:
        for split, count in (("train", 12), ("test", 2)):
            for name, colour in zip(CLASSES, colours, strict=True):
                for index in range(count):
                    pixels = np.clip(rng.normal(colour, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
                    file = io.BytesIO()
                    image.fromarray(pixels).save(file, format="PNG")
                    archive.writestr(f"{split}/{name}/{index}.png", file.getvalue())
    return path


def test_ablation_and_rivals(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    options = ["--quick", "--data", str(cifar(tmp_path / "c.zip")), "--networks", "resnet18"]
    options += ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "a.json")]
    rows = run("ablation.py", *options)["rows"]
    searches = {(r["variant"], r["selection"], r["schedule"]): r for r in rows if r["kind"] == "search"}
    assert searches.keys() == {
        *((variant, "assisted", "continuous") for variant in ("joint", "channels", "weights", "sequential")),
        ("joint", "uniform", "continuous"),
        ("joint", "nsga2", "continuous"),
        ("joint", "assisted", "per-generation"),
        ("random", "random", "continuous"),
    }
    for (variant, selection, _), row in searches.items():
        assert 0 <= row["hypervolume"] < 1
        assert sorted(row["latency_quartiles_ms"]) == row["latency_quartiles_ms"]
        for model in row["models"]:
            kept = model["architecture"]
            assert model["predicted_ms"] <= model["requested_ms"]
            assert variant != "channels" or set(kept["densities"].values()) == {1.0}
            assert variant != "weights" or kept["widths"] == whole(rows)["widths"]
            trained = selection in ("assisted", "random")
            assert trained == ("test_error" in model) == ("measured_ms" in model)
        if trained:
            assert row["test_error"] == {f"{m['requested_ms']:.4g}": m["test_error"] for m in row["models"]}
    costs = {row["evaluations"] for key, row in searches.items() if key[1] in ("assisted", "random")}
    assert max(costs) <= 24 + 2, "population 6 x 4 generations, and the corners of a second phase"
    (fidelity,) = (row for row in rows if row["kind"] == "fidelity")
    assert all(0 <= model["error"] <= 1 and "test_error" not in model for model in fidelity["models"])

    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS.parent / "examples" / "jcw-rivals"))
    options[options.index("--out") + 1] = str(tmp_path / "r.json")
    compared = run("rivals.py", *options, "--ablation", str(tmp_path / "a.json"))["rows"]
    assert {row["variant"] for row in compared} == {"uniform", "usnet", "autoslim", "halp", "fast-sparse"}
    for row in compared:
        assert row["source"]
        assert row["seconds"] >= 0
        for model in row["models"]:
            assert model["predicted_ms"] <= model["requested_ms"]
            assert 0 <= model["test_error"] <= 1
            assert model["training_seconds"] > 0
            pruned = [d for d in model["architecture"]["densities"].values() if d < 1]
            assert bool(pruned) == (row["variant"] == "fast-sparse")


def whole(rows):
    (dense,) = (row for row in rows if row["kind"] == "dense")
    return dense["models"][0]["architecture"]


def test_rows_hold_for_their_settings_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    rows_of = importlib.import_module("ablation_rows").Rows
    path, work = tmp_path / "r.json", tmp_path / "work"
    one = rows_of(path, work, {"machine": "a"}, {"net": "1", "other": "5"})
    assert one.read() == []
    one.put({"kind": "search", "network": "net", "seed": 1, "value": 1})
    one.put({"kind": "search", "network": "net", "seed": 0, "value": 2})
    one.put({"kind": "search", "network": "other", "value": 3})
    one.put({"kind": "search", "network": "net", "seed": 1, "value": 4})
    assert [(row["network"], row["seed"], row["value"]) for row in one.read()] == [
        ("net", 0, 2),
        ("net", 1, 4),
        ("other", 0, 3),
    ]
    changed = rows_of(path, work, {"machine": "b"}, {"net": "2"})
    assert changed.find(kind="search", network="net", seed=1) is None
    assert changed.find(kind="search", network="other")["value"] == 3
    changed.put({"kind": "dense", "network": "net", "value": 6})
    assert [row["value"] for row in changed.read()] == [6, 3], "what no longer holds is gone"
    assert json.loads(path.read_text())["machine"] == "b"


def test_pieces_are_done_once_and_failures_are_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    pieces, ablation_rows = (importlib.import_module(name) for name in ("pieces", "ablation_rows"))
    done = []

    def fails():
        raise JcwError("no data")

    def all_pieces():
        for name in ("a", "held", "b"):
            yield pieces.Piece(name, lambda name=name: name not in done, lambda name=name: done.append(name))
        yield pieces.Piece("broken", lambda: True, fails)
        yield pieces.Piece(
            "later", lambda: "later" not in done, lambda: done.append("later"), lambda: "c" in done
        )
        if "b" in done:
            yield pieces.Piece("c", lambda: "c" not in done, lambda: done.append("c"))

    with ablation_rows.locked(tmp_path, "held"):
        assert pieces.work(all_pieces, tmp_path, 1.0) == ["no data"]
    assert done == ["a", "b", "c", "later"]
    assert pieces.work(all_pieces, tmp_path, 0.0) == []
    assert "held" not in done, "no time, no piece"
    pieces.work(all_pieces, tmp_path, 1.0)
    assert done[-1] == "held"


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


@needs("cmake", "g++", "aarch64-linux-gnu-g++", "qemu-aarch64", "llvm-mca-19")
def test_arm_model(tmp_path):
    options = ["--quick", "--build", str(tmp_path / "build"), "--out", str(tmp_path / "a.json")]
    result = run("arm_model.py", *options)
    assert {"compiler", "llvm-mca"} <= result["versions"].keys()
    rows = result["rows"]
    assert len({row["layer"] for row in rows}) == len(rows) == 20, "the convolutions of ResNet-18"
    parts = ("multiply", "other_issue", "l2_wait", "memory_wait", "store_wait", "mispredicted")
    for row in rows:
        assert 0 < row["l2_misses"] <= row["l1_misses"] < row["instructions"]
        assert 0 < row["modelled_low_ms"] <= row["modelled_high_ms"]
        assert row["modelled_high_ms"] == pytest.approx(sum(row[f"{part}_ms"] for part in parts))
        assert 0 < row["fmla_share_of_loop_cycles"] <= 1
        assert row["busiest_loop"]["fmla_issue"] >= 0.95
    (total,) = result["totals"]
    assert total["modelled_high_ms"] == pytest.approx(sum(row["modelled_high_ms"] for row in rows))


ACCESSES = """
#include <cstdio>
#include "memory.hpp"
using arm::Access;
arm::Memory memory;
void print(unsigned line, Access kind, arm::Time cycle) {
  std::printf("%d ", static_cast<int>(memory.access(line, kind, cycle * arm::kCycle).wait / arm::kCycle));
}
int main() {
  print(1, Access::load, 0);           // from memory
  print(1, Access::load, 300);         // known
  for (unsigned i = 1; i < 3; ++i) print(1 + 256 * i, Access::store, 1000 * i);
  print(1, Access::load, 4000);        // the stores took its place in the first cache
  print(9, Access::prefetch, 5000);
  print(9, Access::load, 5100);        // on its way
  print(8, Access::prefetch, 6000);
  print(8, Access::load, 6300);        // there
  for (unsigned i = 0; i < 7; ++i) print(100 + i, Access::prefetch, 7000);
}
"""


@needs("g++")
def test_caches_of_arm_model(tmp_path):
    (tmp_path / "accesses.cpp").write_text(ACCESSES)
    command = [
        "g++",
        "-std=c++20",
        "-I",
        BENCHMARKS / "arm",
        tmp_path / "accesses.cpp",
        "-o",
        tmp_path / "accesses",
    ]
    subprocess.run(command, check=True)
    waits = subprocess.run([tmp_path / "accesses"], check=True, capture_output=True, text=True).stdout.split()
    # Of seven lines from memory, the last one finds all six places taken until the first has arrived.
    assert [int(wait) for wait in waits] == [240, 0, 0, 0, 21, 0, 140, 0, 0, *[0] * 6, 240]


def test_webassembly_is_compared_with_the_faster_of_dense_and_pruned(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    wasm = importlib.import_module("wasm")
    ms = np.array([[10, 20, 4, 30, 5, 18], [12, 22, 6, 28, 7, 16], [11, 21, 5, 29, 6, 17]])
    outputs = [[1, 2], [1, 2], [1, 4.5], [1, 5], [0, 1], [0, -2]]
    rows = list(wasm.rows_of("net", ms, outputs))
    assert [row["median_ms"] for row in rows] == [11, 21, 5, 29, 6, 17]
    assert [(row["min_ms"], row["max_ms"]) for row in rows[:2]] == [(10, 12), (20, 22)]
    assert [row["error"] for row in rows[::2]] == [0, 0.1, 1.5]
    found = [(row["density"], row["peer_ms"], row["speedup"]) for row in wasm.compare(rows)]
    assert found == [(1.0, 21, 21 / 11), (0.2, 21, 21 / 5), (0.1, 17, 17 / 6)]

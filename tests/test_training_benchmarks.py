"""Benchmarks that train run, and their files have the fields that readers of ``docs/results`` rely on."""

import importlib
import io
import json
import zipfile

import numpy as np
import pytest
from benchmark_files import BENCHMARKS, run

from jcw_core.datasets.cifar10 import CLASSES
from jcw_core.errors import JcwError
from jcw_kernels import available_isas


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


def test_training_as_a_share_of_what_a_device_can_do(tmp_path):
    for package in ("torch", "PIL.Image", "matplotlib"):
        pytest.importorskip(package)
    out = tmp_path / "t.json"
    old = {"kind": "processes", "network": "resnet18", "width": 1.0, "pixels": 32, "images": 8, "ratio": 1.2}
    old |= {"ratio_quartiles": [1.1, 1.3], "capability": "other"}
    out.write_text(json.dumps({"machine": {"cpu": "its own"}, "versions": {"torch": "1"}, "rows": [old]}))
    found = run("training.py", "--quick", "--accelerator", "cpu", "--out", str(out))
    assert found["machine"] == {"cpu": "its own"}
    row, kept = found["rows"]
    assert kept == old
    assert row["kind"] == "peak"
    assert row["peak_tflops"] > 0
    for name in ("supernet", "dense"):
        assert row[f"{name}_ms"] > 0
        assert 0 < row[f"{name}_share"] < 1


def test_operations_of_a_step_are_those_that_torch_counts(monkeypatch):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from jcw_core.registry import Registry

    monkeypatch.syspath_prepend(BENCHMARKS)
    flops, plain_of = (importlib.import_module(f"training_{part}") for part in ("peak", "steps"))
    # Not of grouped convolutions, whose gradients torch counts as if they had no groups.
    network = Registry().backbones["resnet18"].build(num_classes=5, width=0.25, input_size=32)
    with FlopCounterMode(display=False) as counter:
        plain_of.Plain(network)(torch.randn(3, *network.input_shape)).sum().backward()
    assert 3 * flops.training_flops(network) == counter.get_total_flops()


def test_a_gpu_that_is_not_there_is_told(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    pytest.importorskip("PIL.Image")
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["training.py", "--accelerator", "cuda"])
    with pytest.raises(SystemExit):
        importlib.import_module("training").arguments()
    assert "finds no GPU" in capsys.readouterr().err


def test_rows_of_other_instruction_sets_and_kinds_stay(tmp_path, monkeypatch):
    pytest.importorskip("PIL.Image")
    monkeypatch.syspath_prepend(BENCHMARKS)
    others = importlib.import_module("training").others
    path, old = tmp_path / "t.json", [("step", "AVX2"), ("step", "AVX512"), ("peak", "AVX2")]
    rows = [{"kind": kind, "capability": capability} for kind, capability in old]
    assert others(path, rows[:1]) == []
    path.write_text(json.dumps({"rows": rows}))
    assert others(path, rows[:1]) == rows[1:]


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_plain_modules_compute_the_network(name, monkeypatch):
    torch = pytest.importorskip("torch")
    from jcw_core.registry import Registry
    from jcw_core.training.module import Slimmable

    monkeypatch.syspath_prepend(BENCHMARKS)
    plain_of = importlib.import_module("training_steps").Plain
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
    assert {row["variant"] for row in compared} == {
        *("uniform", "usnet", "autoslim", "halp", "fast-sparse", "dmcp", "amc")
    }
    for row in compared:
        assert row["source"]
        assert row["seconds"] >= 0
        for model in row["models"]:
            assert model["predicted_ms"] <= model["requested_ms"]
            assert 0 <= model["test_error"] <= 1
            assert model["training_seconds"] > 0
            pruned = [d for d in model["architecture"]["densities"].values() if d < 1]
            assert bool(pruned) == (row["variant"] == "fast-sparse")


def test_rivals_stand_beside_searches_of_their_own_seeds(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    methods = importlib.import_module("rivals_figure").methods
    dense = [{"kind": "dense", "network": "net", "seed": seed} for seed in range(3)]
    joint = [
        one | {"kind": "search", "variant": "joint", "selection": "assisted", "schedule": "continuous"}
        for one in dense
    ]
    rivals = [{"kind": "rival", "network": "net", "variant": "halp", "seed": seed} for seed in (0, 2)]
    found = dict(methods(rivals, dense + joint, "net"))
    assert {name: [row["seed"] for row in rows] for name, rows in found.items()} == {
        "dense": [0, 2],
        "joint": [0, 2],
        "halp": [0, 2],
    }


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

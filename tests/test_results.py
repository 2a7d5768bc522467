"""The pages that tell what was measured tell what ``docs/results`` holds."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
sys.path.insert(0, str(ROOT / "benchmarks"))
FIGURE = importlib.import_module("selection_figure")
PAGE = (RESULTS / "README.md").read_text(encoding="utf-8")


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def networks(name="networks"):
    for one in read(name)["runs"]:
        yield from filter(None, importlib.import_module("networks_figure").summary(one).splitlines())


def batches():
    yield from networks("batches")


def wasm():
    yield from importlib.import_module("wasm").summary(read("wasm")["comparisons"]).splitlines()


def threads():
    for row in read("threads")["rows"]:
        low, high = row["speedup_quartiles"]
        yield f"| {row['network']} | {row['density']:.0%} | {row['speedup']:.2f} ({low:.2f} to {high:.2f}) |"


def layers():
    rows = [
        row
        for row in read("layers")["rows"]
        if row["isa"] == "avx512" and row["layer"] != "depthwise" and row["density"] <= 0.3
    ]
    for key in dict.fromkeys(
        (r["layer"], r["size"], r["in_channels"], r["out_channels"], r["stride"]) for r in rows
    ):
        kind, size, inputs, outputs, stride = key
        shares = [
            row["share_of_peak"]
            for row in rows
            if (row["layer"], row["size"], row["in_channels"], row["out_channels"], row["stride"]) == key
        ]
        three, two, one = (f"{share:.0%}" for share in shares)
        yield f"| {kind}, stride {stride}, {inputs} to {outputs} at {size} x {size} | {three} | {two} | {one} |"


def arm_model():
    yield from importlib.import_module("arm_model").summary(read("arm_model")["rows"]).splitlines()


def latency():
    for row in read("latency")["rows"]:
        if row["kind"] == "fidelity":
            yield (
                f"| {row['network']} | {row['grid']} | {row['grid_points']} | {row['profile_seconds']:.0f} "
                f"| {row['mape']:.1%} | {row['max_error']:.1%} | {row['bias']:+.1%} | {row['kendall_tau']:.3f} "
                f"| {row['macs_kendall_tau']:.3f} |"
            )


def selection():
    yield from filter(None, FIGURE.summary(read("selection")["rows"]).splitlines())


def training():
    yield from filter(
        None, importlib.import_module("training").summary(read("training")["rows"]).splitlines()
    )


@pytest.mark.parametrize(
    "rows", [networks, batches, wasm, threads, layers, arm_model, latency, selection, training]
)
def test_the_page_has_every_row(rows):
    expected = list(rows())
    assert expected
    assert [row for row in expected if row not in PAGE] == []


@pytest.mark.parametrize("name", ["ablation", "rivals"])
def test_the_page_has_what_there_is_of_the_ablation(name):
    if not (RESULTS / f"{name}.json").is_file():
        assert f"of `{name}.json` there are no rows" in PAGE
        return
    assert f"of `{name}.json` there are no rows" not in PAGE
    rows, ours = read(name)["rows"], read("ablation")["rows"]
    summary = importlib.import_module(f"{name}_figure").summary
    text = summary(rows) if name == "ablation" else summary(rows, ours)
    assert [line for line in text.splitlines() if line not in PAGE] == []


PRETRAINED = [path.stem for path in sorted(RESULTS.glob("*_pretrained.json"))]


@pytest.mark.parametrize("name", PRETRAINED)
def test_the_page_has_every_pretrained_model(name):
    summary = importlib.import_module("pretrained").summary
    rows = read(name)["rows"]
    assert {"dense", "joint"} < {row["method"] for row in rows}
    assert [line for line in summary(rows).splitlines() if line not in PAGE] == []


KEYS = {
    *(
        "method",
        "predicted_latency_ms",
        "measured_latency_ms",
        "top1_one_shot",
        "top1",
        "file_bytes",
        "seconds",
    ),
}
UNIFORM = {"uniform_width", "uniform_density", "uniform_both"}


def test_the_pretrained_tables_are_there():
    assert PRETRAINED == [
        "efficientnet_lite0_imagenet_pretrained",
        "mobilenet_v2_imagenet_pretrained",
        "transfer_cifar10_pretrained",
    ]


@pytest.mark.parametrize("name", PRETRAINED)
def test_pretrained_rows_have_all_that_is_asked_of_them(name):
    found = read(name)
    assert found["machine"]
    assert [row["method"] for row in found["rows"] if not row.keys() >= KEYS] == []
    methods = [row["method"] for row in found["rows"]]
    assert set(methods) == {"dense", "joint", *UNIFORM}
    assert methods.count("joint") >= 5
    assert methods.count("dense") == 1
    # Only where nothing is trained after it is the estimate of a one-shot model that of the model.
    one_shot = [row["top1_one_shot"] for row in found["rows"]]
    assert all(value is None for value in one_shot) == (name == "transfer_cifar10_pretrained")


def dominated(rows, latency):
    """Searched models of which a uniform one is as fast and as good, and better in one."""
    return [
        (joint, uniform)
        for joint in rows
        for uniform in rows
        if (joint["method"], uniform["method"] in UNIFORM) == ("joint", True)
        and uniform[latency] <= joint[latency]
        and uniform["top1"] >= joint["top1"]
        and (uniform[latency] < joint[latency] or uniform["top1"] > joint["top1"])
    ]


@pytest.mark.parametrize("name", PRETRAINED)
def test_no_searched_model_is_dominated_by_a_uniform_one(name):
    assert dominated(read(name)["rows"], "measured_latency_ms") == []


def test_the_page_says_where_one_is_dominated_with_avx2():
    pairs = {name: dominated(read(name)["rows"], "avx2_latency_ms") for name in PRETRAINED}
    (joint, uniform), *others = pairs.pop("efficientnet_lite0_imagenet_pretrained")
    assert others == []
    assert [name for name, found in pairs.items() if found] == []
    assert joint["top1"] == uniform["top1"]
    said = " ".join(PAGE.split())
    assert (
        f"{joint['avx2_latency_ms']:.2f} ms, the best uniform density {uniform['avx2_latency_ms']:.2f}"
        in said
    )


def test_the_readme_has_the_networks():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = {}
    comparisons = read("networks")["runs"][0]["comparisons"]
    for c in (c for c in comparisons if c["precision"] == "float32"):
        digits = 1 if c["jcw_ms"] >= 3 else 2
        cells.setdefault(c["network"], []).append(f"{c['jcw_ms']:.{digits}f} ({c['peer_ms']:.1f})")
    for network, row in cells.items():
        assert f"| {network} | {' | '.join(row)} |" in readme


def test_every_file_is_shown():
    for figure in RESULTS.glob("*.png"):
        assert f"({figure.name})" in PAGE
        assert f"({figure.with_suffix('.json').name})" in PAGE

"""``jcw compress``: from a network of one's own and some images to a file that runs, on the engine of this machine."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import click
import numpy as np
import pytest
from commands import jcw, start, wait_for
from safetensors.numpy import load as load_tensors

import jcw_core.compress.work
from jcw_core.cli.main import build
from jcw_core.compress.outcome import loss
from jcw_core.compress.request import Request
from jcw_core.compress.work import Work
from jcw_core.datasets.images import Images, ImagesOptions
from jcw_core.datasets.memory import MemoryDataset
from jcw_core.datasets.split import normalise
from jcw_core.errors import JcwError
from jcw_core.files import safetensors_metadata
from jcw_core.formats.onnx_writer import OnnxExporter
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.image_input import ImageInput
from jcw_core.network.model import Model
from jcw_core.recipe.recipe import Recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_kernels.program import load
from jcw_latency import LatencyTable

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
onnx = pytest.importorskip("onnx")

QUICK = [
    word
    for setting in (
        *("latency.min_rounds=1", "latency.rounds=1", "latency.whole_networks=0", "latency.check_networks=0"),
        *("latency.adaptive_tolerance=1.0", "search.population=5", "search.generations=2", "run.threads=1"),
    )
    for word in ("--set", setting)
]
NETS = """
from torch import nn

def make():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 24, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 4),
    )

def segmenter():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 2, 1))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A torch module with its weights, an ONNX file, and images with and without classes."""
    root = tmp_path_factory.mktemp("compress")
    (root / "nets.py").write_text(NETS)
    scope: dict[str, object] = {}
    exec(NETS, scope)
    torch.manual_seed(0)
    torch.save(scope["make"]().state_dict(), root / "w.pth")  # type: ignore[operator]
    rng = np.random.default_rng(0)
    for index in range(96):
        # Classes differ in colour.
        shade = 60 * (index % 4) + np.array([0, 20, 40])
        pixels = np.clip(rng.normal(shade, 30, (20, 26, 3)), 0, 255).astype(np.uint8)
        for name in (f"flat/{index:03}.jpg", f"classes/{'abcd'[index % 4]}/{index}.jpg"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(root / name)
    OnnxExporter().export(small(rng), root / "net.onnx")
    return root


def small(rng: np.random.Generator) -> Model:
    net = NetworkBuilder("small", (3, 16, 16))
    net.conv("conv1", 16, 3, stride=2)
    net.batch_norm("bn1")
    net.add("relu1", "relu")
    net.conv("conv2", 24, 3)
    net.add("relu2", "relu")
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 4)
    network = net.build()
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    drawn = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    return Model(network, {n: np.abs(a) + 0.5 if n.endswith("var") else a for n, a in drawn.items()})


MODULE = ("compress", "nets:make", "--weights", "w.pth", "--shape", "1,3,16,16")


@pytest.fixture(scope="module")
def within(place: Path) -> subprocess.CompletedProcess[str]:
    """A budget that the dense network meets, which tells how long it takes."""
    done = jcw(*MODULE, "--images", "flat", "--budget-ms", "1000", "--out", "out/dense", *QUICK, cwd=place)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def budget(within: subprocess.CompletedProcess[str]) -> str:
    """Between what the dense network and the smallest one take."""
    dense, smallest = re.findall(r"predicted to take (\S+) ms, the smallest (\S+) ms", within.stderr)[0]
    return f"{0.6 * float(dense) + 0.4 * float(smallest):.6f}"


@pytest.fixture(scope="module")
def finished(place: Path, budget: str) -> Path:
    """A run by the torch module, into the folder where modules are not."""
    # With the table by which the budget was chosen; paths in its recipe are the same from there.
    shutil.copytree(place / "out/dense", place / "out/small")
    done = jcw(*MODULE, "--images", "flat", "--budget-ms", budget, "--out", "out/small", *QUICK, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "profile ..." not in done.stderr
    (place / "said.txt").write_text(done.stdout)
    return place / "out/small"


@pytest.mark.parametrize(("precision", "stored"), [("int8", np.int8), ("float16", np.float16)])
def test_in_other_precisions_it_is_profiled_and_exported(place: Path, precision: str, stored: type) -> None:
    """Whatever this processor gains from."""
    given = (*MODULE, "--images", "flat", "--budget-ms", "1000", "--precision", precision, "--out", precision)
    always = ("--set", "export.products=bytes", "--set", "export.calibration_error=1.0")
    done = jcw(*given, *QUICK, *always, cwd=place)
    assert done.returncode == 0, done.stderr
    file = (place / precision / "model.jcw").read_bytes()
    assert safetensors_metadata(file)["precision"] == precision
    kinds = {
        array.dtype for name, array in load_tensors(file).items() if name.endswith((".values", ".weight"))
    }
    assert np.dtype(stored) in kinds
    assert precision == "int8" or kinds == {np.dtype(stored)}
    assert LatencyTable.load(place / precision / "table.npz").device.versions["precision"] == precision
    assert "latencies are predicted for the former" not in done.stderr
    assert "held-out images" in done.stdout


@pytest.mark.parametrize(("weights", "notes"), [(None, 1), (Path("w.pth"), 0)])
def test_a_module_without_a_file_of_weights_is_a_note(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: Path | None, notes: int
) -> None:
    """It may bring weights that were trained; where it was forgotten they are random, and nothing else tells."""
    monkeypatch.chdir(place)

    def stop(*_: object) -> None:
        raise JcwError("the profile begins")

    monkeypatch.setattr(jcw_core.compress.work, "run", stop)
    said: list[str] = []
    request = Request("nets:make", weights, (1, 3, 16, 16), Path("flat"), (1000.0,), "host", tmp_path / "out")
    with pytest.raises(JcwError, match="the profile begins"):
        Work(request, Registry(), (), lambda event: None, said.append).run()
    assert len([note for note in said if "without --weights" in note]) == notes


@pytest.mark.parametrize(
    ("error", "words"), [(0.3, "10.0 points lost"), (0.2, "0.0 points lost"), (0.1, "10.0 points gained")]
)
def test_points_are_lost_or_gained(error: float, words: str) -> None:
    report = {"images": 180, "baseline": {"test_error": 0.2}, "scored_against": "labels"}
    assert loss({"test_error": error}, report).endswith(f": {words}")


def test_where_a_file_ends_stands_in_the_recipe(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the run can be continued by it; what follows has no place."""
    monkeypatch.chdir(place)
    file = onnx.load("net.onnx")
    (end,) = file.graph.output
    file.graph.node.append(onnx.helper.make_node("Erf", [end.name], ["decoded"]))
    end.name = "decoded"
    onnx.save(file, tmp_path / "tail.onnx")
    recipes: list[Recipe] = []

    def stop(context: Context, *_: object) -> None:
        recipes.append(context.recipe)
        raise JcwError("the profile begins")

    monkeypatch.setattr(jcw_core.compress.work, "run", stop)
    given = ["compress", str(tmp_path / "tail.onnx"), "--images", "flat", "--budget-ms", "5"]
    with pytest.raises(JcwError, match=r"node 'decoded' \(Erf\): .*--outputs"):
        build(Registry()).main([*given, "--out", str(tmp_path / "out")], standalone_mode=False)
    with pytest.raises(JcwError, match="the profile begins"):
        build(Registry()).main(
            [*given, "--outputs", "output", "--out", str(tmp_path / "out")], standalone_mode=False
        )
    (recipe,) = recipes
    assert recipe.network.outputs == ("output",)


def scored(place: Path, folder: str, **options: object) -> MemoryDataset:
    given = {"path": place / folder, "size": 16, "outputs": 4, **options}
    return Images().open("test", ImagesOptions(**given))  # type: ignore[arg-type]


def outputs(path: Path, pixels: np.ndarray) -> np.ndarray:
    """What a file that is handed over makes of pixels as they are."""
    return load(path).run(pixels.astype(np.float32))


def test_a_budget_that_the_dense_network_meets_leaves_it_as_it_is(
    place: Path, within: subprocess.CompletedProcess[str]
) -> None:
    """What was brought and what is handed over compute the same."""
    data = scored(place, "flat")
    images = normalise(data.pixels, data)
    scope: dict[str, object] = {}
    exec(NETS, scope)
    module = scope["make"]().eval()  # type: ignore[operator]
    module.load_state_dict(torch.load(place / "w.pth", weights_only=True))
    with torch.inference_mode():
        wanted = module(torch.from_numpy(images)).numpy()
    found = outputs(place / "out/dense/models/baseline/model.jcw", data.pixels)
    np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())
    assert "is predicted to take" in within.stderr
    assert "the dense network as it is, within the budget of 1000 ms" in within.stdout
    assert (place / "out/dense/model.jcw").read_bytes() == (
        place / "out/dense/models/baseline/model.jcw"
    ).read_bytes()


def test_each_budget_has_its_model_and_a_loose_one_the_dense_network(
    place: Path, finished: Path, budget: str
) -> None:
    shutil.copytree(finished, place / "out/both")
    asked = ("--budget-ms", budget, "--budget-ms", "1000")
    done = jcw(*MODULE, "--images", "flat", *asked, "--out", "out/both", *QUICK, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "search ..." not in done.stderr
    assert "the dense network as it is, within the budget of 1000 ms" in done.stdout
    made = {path.name: path.read_bytes() for path in (place / "out/both").glob("*.jcw")}
    assert made[f"model-{float(budget):g}ms.jcw"] == (finished / "model.jcw").read_bytes()
    assert made["model-1000ms.jcw"] == (finished / "models/baseline/model.jcw").read_bytes()


def test_what_is_said_was_computed_by_the_file_that_is_handed_over(
    place: Path, finished: Path, budget: str
) -> None:
    data = scored(place, "flat")
    dense, small = (
        outputs(finished / name, data.pixels).argmax(1) for name in ("models/baseline/model.jcw", "model.jcw")
    )
    said = (place / "said.txt").read_text()
    assert f"same class as the dense network on {np.mean(dense == small):.1%} of 29 held-out images" in said
    assert re.search(r"out/small/model\.jcw, .*: \S+ ms measured, .* times as fast as dense", said)
    report = json.loads((finished / "report.json").read_text())
    assert report["baseline"]["test_error"] == 0
    assert all(
        m["predicted_latency_ms"] <= m["requested_latency_ms"] <= float(budget) for m in report["models"]
    )
    shown = jcw("show", str(finished), cwd=place)
    assert "other than dense" in shown.stdout


def test_a_network_without_classes_is_held_to_its_own_outputs(place: Path) -> None:
    scope: dict[str, object] = {}
    exec(NETS, scope)
    torch.save(scope["segmenter"]().state_dict(), place / "s.pth")  # type: ignore[operator]
    given = ("compress", "nets:segmenter", "--weights", "s.pth", "--shape", "1,3,16,16", "--images", "flat")
    done = jcw(*given, "--budget-ms", "1000", "--out", "maps", *QUICK, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "outputs 0.00% from the dense network's on 29 held-out images" in done.stdout
    rows = json.loads((place / "maps" / "evaluation.json").read_text())["models"].values()
    assert all(row.keys() == {"distance", "images"} for row in rows)


def test_its_recipe_continues_it(place: Path, finished: Path) -> None:
    first = (finished / "recipe.toml").read_text().splitlines()[0]
    command = re.findall(r'"jcw (.*)"', first)[0].split()
    plan = jcw(*command, "--dry-run", *QUICK, cwd=place)
    assert plan.returncode == 0, plan.stderr
    stages = [line for line in plan.stdout.splitlines() if " -> " in line]
    assert len(stages) == 8
    assert all("finished" in line for line in stages), plan.stdout


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_it_continues_and_ends_the_same(
    place: Path, finished: Path, budget: str, kind: signal.Signals
) -> None:
    copy = finished.with_name(kind.name)
    shutil.copytree(finished, copy)
    for record in ("search", "retrain", "export", "evaluate", "report"):
        (copy / ".state" / f"{record}.json").unlink()
    given = (*MODULE, "--images", "flat", "--budget-ms", budget, "--out", f"out/{copy.name}", *QUICK)
    process = start(*given, cwd=place)
    wait_for(process, lambda: (copy / ".state" / "search" / "state.npz").exists())
    process.send_signal(kind)
    process.communicate()
    done = jcw(*given, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "supernet finished before" in done.stderr
    fronts = [json.loads((folder / "front.json").read_text()) for folder in (copy, finished)]
    assert fronts[0] == fronts[1]


def test_an_onnx_file_and_images_with_classes(place: Path) -> None:
    given = (
        "compress",
        "net.onnx",
        "--images",
        "classes",
        "--mean",
        "0.5,0.5,0.5",
        "--std",
        "0.25,0.25,0.25",
    )
    done = jcw(*given, "--budget-ms", "1000", *QUICK, "--set", "network.prune_first=true", cwd=place)
    assert done.returncode == 0, done.stderr
    folder = place / "compressed" / "net"
    front = json.loads((folder / "front.json").read_text())["models"]
    assert all("conv1" in model["architecture"]["densities"] for model in front)
    data = scored(place, "classes", mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    right, dense = (
        np.mean(outputs(folder / name, data.pixels).argmax(1) == data.labels)
        for name in ("model.jcw", "models/baseline/model.jcw")
    )
    assert (
        f"{right:.1%} of 29 held-out images right, dense {dense:.1%}: {100 * (dense - right):.1f} points lost"
        in done.stdout
    )
    told = jcw("predict-image", str(folder / "model.jcw"), "classes/b/1.jpg", "--json", cwd=place)
    assert told.returncode == 0, told.stderr
    (image,) = json.loads(told.stdout)["images"]
    assert {one["name"] for one in image["classes"]} == set("abcd")
    onnx_model = onnx.load(folder / "model.onnx")
    assert ImageInput.from_json(onnx_model.metadata_props[0].value) == load(folder / "model.jcw").images


def test_a_budget_below_the_fastest_network_names_the_nearest(
    place: Path, within: subprocess.CompletedProcess[str]
) -> None:
    names = ("supernet.safetensors", "recipe.toml", "recipe.json")
    before = [(place / "out/dense" / name).read_bytes() for name in names]
    given = (*MODULE, "--images", "flat", "--budget-ms", "1e-6", "--out", "out/dense", *QUICK)
    done = jcw(*given, cwd=place)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert re.search(
        r"no network of the space is predicted to run within 1e-06 ms; ask for at least 0\.0", line
    )
    assert [(place / "out/dense" / name).read_bytes() for name in names] == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nets:make", "--images", "few"), "22 images to work with are too few; give at least 32"),
        (("nets:make", "--images", "nowhere"), "nowhere: no such folder or .zip file"),
        (("nets:make", "--images", "broken"), r"none of 42 images can be decoded; .*not a JPEG"),
        (("nets:make", "--images", "flat", "--weights", "nan.pth"), r"nan.pth: 0.weight holds NaN or infinity"),
        (("nets:make", "--images", "flat", "--weights", "other.pth"), r"other.pth: does not fit nets:make: lacks"),
        (("nets:none", "--images", "flat"), "nets:none: the module 'nets' has no 'none'"),
        (("net", "--images", "flat"), "net: expected a file whose name ends in .json or .onnx, or PACKAGE.MODULE"),
        (("net.json", "--images", "flat"), "a network without weights; give them with --weights"),
        (("net.onnx", "--images", "flat", "--weights", "w.pth"), "--weights: net.onnx brings its own"),
        (("nets:make", "--images", "flat", "--outputs", "a"), "nets:make: has no module 'a' to end with"),
        (("net.json", "--images", "flat", "--outputs", "a"), "--outputs: names values of an ONNX file .*, neither of which net.json is"),
        (("net.onnx", "--images", "flat", "--outputs", "a"), "net.onnx: no operator makes the value 'a'"),
        (("net.onnx", "--images", "flat", "--set", "network.outputs=['a']"), "--set network.outputs: .*give --outputs"),
        (("net.onnx", "--images", "flat", "--budget-ms", "0"), "--budget-ms: .*give milliseconds above 0"),
        (("net.onnx", "--images", "flat", "--mean", "x"), "'x' is no list of numbers"),
        (("net.onnx", "--images", "flat", "--shape", "2,3,16,16"), "not the shape of one image"),
        (("net.onnx", "--images", "flat", "--device", "toaster"), "^--device: unknown device .toaster.; there is: "),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    place: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(31):
        for name, content in (("few", (place / "flat/000.jpg").read_bytes()), ("broken", b"no")):
            (place / name).mkdir(exist_ok=True)
            (place / name / f"{index:02}.jpg").write_bytes(content)
    for index in range(31, 60):
        (place / "broken" / f"{index:02}.jpg").write_bytes(b"no")
    (place / "net.json").write_text(small(np.random.default_rng(0)).network.to_json())
    state = torch.load(place / "w.pth", weights_only=True)
    torch.save(state | {"0.weight": torch.full_like(state["0.weight"], torch.nan)}, place / "nan.pth")
    torch.save({"other": torch.zeros(1)}, place / "other.pth")
    monkeypatch.chdir(place)
    given = ["--budget-ms", "5", "--out", "bad"]
    if not arguments[0].endswith(".onnx"):
        given += ["--shape", "1,3,16,16"]
    with pytest.raises((JcwError, click.UsageError)) as caught:
        build(Registry()).main(
            ["compress", arguments[0], *given, *arguments[1:], *QUICK], standalone_mode=False
        )
    said = caught.value.format_message() if isinstance(caught.value, click.UsageError) else str(caught.value)
    assert re.search(message, said)
    assert "\n" not in said
    assert not (place / "bad" / "table.npz").exists()

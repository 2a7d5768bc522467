"""``jcw init``: a recipe that runs as it is for a folder of images, or a line that says what is missing."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from core_networks import random_weights
from image_trees import encoded, grow

from jcw_core.backbones.mobilenet_v1 import MOBILENET_V1
from jcw_core.cli.main import build
from jcw_core.formats.network_file import read_model
from jcw_core.network.model import Model
from jcw_core.registry import Registry

RNG = np.random.default_rng(0)


def tree(*folders: str, images: int = 50, shape: tuple[int, ...] = (36, 40, 3)) -> dict[str, bytes]:
    """So many images in each folder, all alike."""
    content = encoded(RNG.integers(0, 256, shape).astype(np.uint8))
    return {f"{folder}/{index}.png".lstrip("/"): content for folder in folders for index in range(images)}


LAYOUTS = {
    "split": tree("train/cat", "train/dog", "val/cat", "val/dog"),
    "classes": tree("cat", "dog"),
}


def jcw(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    monkeypatch.chdir(folder)
    return CliRunner().invoke(build(Registry()), arguments)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["folder", "deflated"])
@pytest.mark.parametrize("arguments", [(), ("--network", "mobilenet_v1", "--budget-ms", "2.5")])
def test_the_recipe_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, kind: str, arguments: tuple[str, ...]
) -> None:
    pytest.importorskip("jcw_retrain", reason="the stages of a run are in all packages")
    images = grow(tmp_path / "my images", LAYOUTS[layout], kind)
    made = jcw(tmp_path, monkeypatch, "init", images.name, *arguments, "--out", "made/first.toml")
    assert made.exit_code == 0, made.output
    parts = "100 images to work with and 100" if layout == "split" else "80 images to work with and 20"
    assert (
        f"my images{images.suffix}: 2 classes (cat, dog), {parts} to score on, 40 x 36 pixels, colour"
        in made.output
    )
    assert made.output.endswith("then jcw run made/first.toml --dry-run\n")
    text = (tmp_path / "made" / "first.toml").read_text()
    assert tomllib.loads(text.replace("# time", "time"))["run"] == {"time": "20 min"}
    document = tomllib.loads(text)
    assert document["run"] == {}
    assert document["data"]["size"] == 32
    assert document["network"]["backbone"] == ("mobilenet_v1" if arguments else "resnet18")
    assert document["retrain"].get("budgets_ms") == ([2.5] if arguments else None)
    dry = jcw(tmp_path, monkeypatch, "run", "made/first.toml", "--dry-run")
    assert dry.exit_code == 0, dry.exception or dry.output
    assert "report       -> report.json, report.html" in dry.output


@pytest.mark.parametrize("folders", [("cat", "dog"), ("train/cat", "test/cat"), ("",)])
def test_a_trained_network_takes_images_as_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: tuple[str, ...]
) -> None:
    pytest.importorskip("jcw_retrain", reason="the stages of a run are in all packages")
    pytest.importorskip("onnx", reason="an extra")
    from jcw_core.formats.onnx_writer import OnnxExporter

    network = MOBILENET_V1.build(num_classes=5, input_size=32, width=0.25)
    OnnxExporter().export(Model(network, random_weights(network, RNG)), tmp_path / "trained.onnx")
    assert read_model(tmp_path / "trained.onnx").weights is not None
    grow(tmp_path / "photos", tree(*folders, images=100), "folder")
    made = jcw(tmp_path, monkeypatch, "init", "photos", "--network", "trained.onnx")
    assert made.exit_code == 0, made.exception or made.output
    document = tomllib.loads((tmp_path / "recipe.toml").read_text())
    assert (document["data"]["name"], document["data"]["outputs"]) == ("images", 5)
    dry = jcw(tmp_path, monkeypatch, "run", "recipe.toml", "--dry-run")
    assert dry.exit_code == 0, dry.exception or dry.output


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({"a.txt": b""}, (), r"no images; expected files that end in"),
        (tree("", images=100), (), r"100 images, but not of two classes or more as class/file"),
        (tree("train/cat", "train/dog"), (), r"but not of two classes .* with train and test or val"),
        (tree("cat", "dog", images=20), (), r"32 images to work with are too few; give at least 64"),
        (tree("cat", "dog"), ("--network", "resnet17"), r"resnet17"),
        (tree("cat", "dog"), ("--network", "no.onnx"), r"no\.onnx"),
        (
            tree("cat", "dog"),
            ("--network", "three.json"),
            r"2 classes, but three\.json has 3; they must be as many",
        ),
        ({f"cat/{i}.png": b"no image" for i in range(99)}, (), r"none of the images .* can be read"),
    ],
)
def test_what_is_missing_is_said_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    grow(tmp_path / "photos", files, "folder")
    (tmp_path / "three.json").write_text(MOBILENET_V1.build(num_classes=3, input_size=32).to_json())
    made = jcw(tmp_path, monkeypatch, "init", "photos", *arguments)
    assert re.search(message, str(made.exception))
    assert "\n" not in str(made.exception)
    assert not (tmp_path / "recipe.toml").exists()


def test_a_recipe_that_is_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(tmp_path / "photos", LAYOUTS["classes"], "folder")
    (tmp_path / "recipe.toml").write_text("mine")
    made = jcw(tmp_path, monkeypatch, "init", "photos")
    assert "recipe.toml: is there already; give another name with --out" in str(made.exception)
    assert (tmp_path / "recipe.toml").read_text() == "mine"


def test_grey_images_and_small_ones_get_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(tmp_path / "digits", tree("a", "b", "c", shape=(28, 28)), "folder")
    made = jcw(tmp_path, monkeypatch, "init", "digits")
    assert "3 classes (a, b, c)" in made.output
    assert "28 x 28 pixels, grey" in made.output
    data = tomllib.loads((tmp_path / "recipe.toml").read_text())["data"]
    assert (data["channels"], data["size"], data["test_share"]) == (1, 24, 0.2)

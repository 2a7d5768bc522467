"""What the npm package and its demo page make of a picture is what ``jcw predict-image`` makes of it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_models import IMAGES, model
from programs import need
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from wasm_package import WASM, check_fault, demo, installed, printed, run

from jcw_core.network.image_input import ImageInput
from jcw_core.network.model import Model
from jcw_core.network.normalisation import with_normalisation
from jcw_kernels.predict_image import classes_in, pixels_of
from jcw_kernels.program import compile_model, load

Image = pytest.importorskip("PIL.Image", reason="image files need jcw-core[images]")

HERE = Path(__file__).parent
SILENT = HERE / "fixtures" / "model-1.jcw"
"""Says nothing of images, and has no checksum, so that what it says can be written into it."""
SIZES = [(30, 20), (31, 67), (7, 5), (640, 360), (12, 16)]
"""Of pictures, (width, height): larger and smaller than what the models read, 10 x 12, and as it is resized."""
HOWS = ["pixels", "mean and std", "grey"]


def network(how: str) -> Model:
    """Reads pixels as they are, as files of ``jcw compress`` do, or has a mean and a deviation."""
    plain = model(1, 1, bias=True, norm=True)
    if how == "grey":
        return grey(plain)
    return with_normalisation(plain) if how == "pixels" else plain


def grey(plain: Model) -> Model:
    """The same for one channel."""
    nodes = json.loads(plain.network.to_json())
    shape = next(node for node in nodes["nodes"] if node["op"] == "input")
    shape["attributes"]["shape"][0] = 1
    weights = {**plain.weights, "conv0.weight": plain.weights["conv0.weight"][:, :1]}
    return replace(
        plain,
        network=type(plain.network).from_json(json.dumps(nodes)),
        weights=weights,
        images=ImageInput((0.4,), (0.3,), 16, IMAGES.classes),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("npm"))


def photo(size: tuple[int, int]) -> Any:
    """Patches and noise, so that neither blur nor a shift goes unnoticed."""
    rng = np.random.default_rng(size)
    coarse = rng.integers(0, 200, (size[1] // 4 + 1, size[0] // 4 + 1, 3)).repeat(4, 0).repeat(4, 1)
    noise = rng.integers(0, 56, (size[1], size[0], 3))
    return Image.fromarray((coarse[: size[1], : size[0]] + noise).astype(np.uint8))


CASES = [(how, size) for how in HOWS for size in SIZES]


@pytest.fixture(scope="module")
def answer(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What wasm_pictures.mjs prints, and the folder of its files."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, (how, size) in enumerate(CASES):
        compile_model(network(how)).save(folder / f"{number}.jcw")
        photo(size).save(folder / f"{number}.png")
        (folder / f"{number}.rgba").write_bytes(photo(size).convert("RGBA").tobytes())
    (folder / "sizes.json").write_text(json.dumps([size for _, size in CASES]))
    (folder / "silent.jcw").write_bytes(SILENT.read_bytes())
    (folder / "damaged.jcw").write_bytes(saying('{"mean": [0.5], "std": [0], "resize": 9, "classes": []}'))
    return json.loads(run("node", HERE / "wasm_pictures.mjs", home, folder)), folder


def saying(images: str) -> bytes:
    """A file of version 1 that says this of its images."""
    file = SILENT.read_bytes()
    length = int.from_bytes(file[:8], "little")
    metadata = json.loads(file[8 : 8 + length])["__metadata__"]
    return save_tensors(load_tensors(file), {**metadata, "images": images})


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{how}-{w}x{h}" for how, (w, h) in CASES])
def test_a_picture_becomes_what_python_makes_of_it(number: int, answer: tuple[dict[str, Any], Path]) -> None:
    said, folder = answer
    path, picture = folder / f"{number}.jcw", folder / f"{number}.png"
    program = load(path)
    told = program.images
    assert told is not None
    assert said["said"][number] == {
        "mean": [*told.mean],
        "std": [*told.std],
        "resize": told.resize,
        "classes": [*told.classes],
    }
    want = pixels_of(program, picture, path)[0]
    got = np.fromfile(folder / f"{number}.raw", np.float32).reshape(want.shape)
    step = 1 / 255 / np.reshape(told.std, (-1, 1, 1))
    # Pillow chooses which direction comes first, and each ends in bytes.
    assert (np.abs(got - want) / step).max() < 1.01
    assert (np.abs(got - want) / step > 0.01).mean() < 0.4
    outputs = np.fromfile(folder / f"{number}.out", np.float32)
    assert outputs.argmax() == classes_in(program, picture, path)[0]["label"]


@pytest.mark.parametrize(
    ("case", "status", "message"),
    [
        ("silent", 1, "does not say how a picture becomes its input"),
        ("means", 1, "images have 1 means, the model takes 3 channels"),
        ("bytes", 1, "a picture of 3 x 3 has 24 bytes, expected 4 a pixel"),
        ("empty", 1, "a picture of 0 x 0"),
        ("damaged", 2, "what the file says of its images cannot be read"),
    ],
)
def test_what_no_picture_becomes_is_an_error(
    case: str, status: int, message: str, answer: tuple[dict[str, Any], Path]
) -> None:
    check_fault(answer[0]["faults"][case], status, message)


def test_files_may_say_nothing_and_callers_instead(answer: tuple[dict[str, Any], Path]) -> None:
    assert answer[0]["nothing"] is None
    assert answer[0]["faults"]["told"] is None


def test_the_readme_names_the_class(home: Path, answer: tuple[dict[str, Any], Path]) -> None:
    """With a canvas that has what the snippet asks of it."""
    _, code = re.findall(r"```js\n(.*?)```", (WASM / "README.md").read_text(), re.DOTALL)
    number, (width, height) = 0, SIZES[0]
    path, picture = answer[1] / f"{number}.jcw", answer[1] / f"{number}.png"
    rgba = json.dumps(str(answer[1] / f"{number}.rgba"))
    before = f"""import {{ readFileSync }} from "node:fs";
import {{ load }} from "jcw-wasm";
const model = await load(readFileSync({json.dumps(str(path))}));
const picture = {{ data: readFileSync({rgba}), width: {width}, height: {height} }};
const canvas = {{ width: {width}, height: {height}, getContext: () => ({{ getImageData: () => picture }}) }};
"""
    (home.parents[1] / "classify.mjs").write_text(before + code)
    assert (
        run("node", home.parents[1] / "classify.mjs")
        == f"{classes_in(load(path), picture, path)[0]['name']}\n"
    )


DROPS = """
<script type="module">
const at = (id) => document.getElementById(id);
const file = ([name, text]) => new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name);
const found = [];
for (const files of FILES) {
  const data = new DataTransfer();
  for (const one of files) data.items.add(file(one));
  at("time").textContent = "";
  dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}));
  while (!at("time").textContent && !at("error").textContent) await new Promise((done) => setTimeout(done, 5));
  found.push({
    rows: [...at("outputs").tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)),
    fields: ["mean", "deviation"].map((id) => at(id).value),
    disabled: at("mean").disabled,
    error: at("error").textContent,
  });
}
console.log("found " + JSON.stringify({found}));
</script>
"""


def test_the_page_sees_what_predict_image_sees(home: Path, tmp_path: Path) -> None:
    """Names and shares of all classes, for one model after the other, and fields that matter again where a file is silent."""
    need("chromium")
    picture = tmp_path / "photo.png"
    photo((64, 36)).save(picture)
    files = {how: tmp_path / f"{how}.jcw" for how in HOWS}
    for how, path in files.items():
        compile_model(network(how)).save(path)
    drops = [[picture, files["pixels"]], [files["mean and std"]], [files["grey"]], [SILENT]]
    encoded = [[(path.name, b64encode(path.read_bytes()).decode()) for path in paths] for paths in drops]
    demo(home, DROPS.replace("FILES", json.dumps(encoded)), tmp_path / "page.html")
    *found, silent = printed(tmp_path / "page.html", tmp_path / "browser")["found"]
    for path, shown in zip(files.values(), found, strict=True):
        want = classes_in(load(path), picture, path)
        assert shown["error"] == ""
        assert shown["disabled"]
        assert [row[0] for row in shown["rows"]] == [one["name"] for one in want]
        shares = [float(row[2].split()[0]) for row in shown["rows"]]
        np.testing.assert_allclose(shares, [100 * one["probability"] for one in want], atol=0.5)
    assert found[0]["fields"] == ["0 0 0", "0.00392157 0.00392157 0.00392157"]
    assert found[1]["fields"] == ["0.5 0.4 0.3", "0.2 0.3 0.25"]
    assert (silent["error"], silent["disabled"]) == ("", False)
    assert silent["fields"] == ["0.485 0.456 0.406", "0.229 0.224 0.225"]
    assert [row[0] for row in silent["rows"]] != [row[0] for row in found[0]["rows"]]

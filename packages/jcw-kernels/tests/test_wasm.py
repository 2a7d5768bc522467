"""The npm package in Node, and its demo page in Chromium, compute what numpy and Python do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_samples import conv_network, weights_for
from numpy.typing import NDArray
from old_models import FIXTURES, IMAGE, OUTPUTS, check, fixture_file
from programs import need
from random_programs import random_program
from test_quantized import integers
from wasm_package import MODULES, PACKAGE, WASM, check_fault, demo, installed, node, printed, run

from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_kernels import Program
from jcw_kernels.model_file import serialize
from jcw_kernels.quantization import Numbers

HERE = Path(__file__).parent
PROGRAMS = 40
FINAL = bytes([0xFD, 0x85, 2])
"""Multiply-add of relaxed SIMD."""
WITHOUT = "WebAssembly.validate = () => false;"
"""Makes a host seem one that has no relaxed SIMD; new ones have no switch for it."""
WHOLE = {
    "windows": conv_network((6, 14, 13), 6, (3, 3), padding=(1, 1)),
    "depthwise": conv_network((6, 14, 13), 6, (3, 3), groups=6),
}
"""Networks that compute with int8."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The npm package as it is installed."""
    return installed(tmp_path_factory.mktemp("npm"))


@pytest.fixture(scope="module", params=MODULES)
def answer(
    request: pytest.FixtureRequest, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """What wasm_cases.mjs prints with one of the modules, and the folder of its files."""
    folder = tmp_path_factory.mktemp("programs")
    for number in range(PROGRAMS):
        draft = random_program(np.random.default_rng(number))
        (folder / f"{number}.jcw").write_bytes(draft.file())
        (folder / f"{number}.raw").write_bytes(draft.image.tobytes())
    for name in OUTPUTS:
        shutil.copy(FIXTURES / f"{name}.jcw", folder)
        IMAGE.tofile(folder / f"{name}.raw")
    for name, network in WHOLE.items():
        file, image = whole(network)
        (folder / f"{name}.jcw").write_bytes(file)
        image.tofile(folder / f"{name}.raw")
    return json.loads(
        run(*node(home, request.param), HERE / "wasm_cases.mjs", home, folder, request.param)
    ), folder


NUMBERS = Numbers(4 / 255, 117, np.zeros(6))


def whole(network: Network) -> tuple[bytes, NDArray[np.float32]]:
    """A model of int8, and an image."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
    return serialize(Model(network, weights_for(network, rng, 0.4)), quantization={"conv": NUMBERS}), image


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_exact_in_both_modules(name: str, answer: tuple[dict[str, Any], Path]) -> None:
    file, image = whole(WHOLE[name])
    got = np.fromfile(answer[1] / f"{name}.out", np.float32)
    np.testing.assert_array_equal(got, integers(file, image[0], WHOLE[name], NUMBERS).reshape(-1))


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_programs_compute_what_numpy_does(number: int, answer: tuple[dict[str, Any], Path]) -> None:
    draft = random_program(np.random.default_rng(number))
    largest = max(1.0, *(np.abs(value).max() for value in draft.values))
    got = np.fromfile(answer[1] / f"{number}.out", np.float32)
    want = draft.values[-1].reshape(-1)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 3e-5 * largest


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_version_so_far_is_read(name: str, answer: tuple[dict[str, Any], Path]) -> None:
    check(name, np.fromfile(answer[1] / f"{name}.out", np.float32))


def test_shapes_and_steps_are_those_of_python(answer: tuple[dict[str, Any], Path]) -> None:
    said, folder = answer
    program = Program((folder / "0.jcw").read_bytes(), isa="scalar")
    assert said["shapes"][0] == list(program.input_shape)
    assert np.prod(said["shapes"][1]) == program.outputs
    want = program.profile(rounds=1)
    assert [step["layer"] for step in said["steps"]] == [step.layer for step in want]
    assert [step["macs"] for step in said["steps"]] == [step.macs for step in want]
    assert all(0 <= step["seconds"] < 1 for step in said["steps"])


@pytest.mark.parametrize(
    ("case", "status", "message"),
    [
        ("truncated", 2, "data_offsets"),
        ("empty", 2, "shorter than 8 bytes"),
        ("none", 1, "neither an ArrayBuffer"),
        ("text", 1, "neither an ArrayBuffer"),
        ("size", 1, "expected a multiple of"),
        ("array", 1, "no Float32Array"),
        ("two", 1, "not one image"),
        ("rounds", 1, "rounds is 0, expected 1 to 1000000"),
        ("freed", 1, "was freed"),
    ],
)
def test_bad_input_is_an_error(
    case: str, status: int, message: str, answer: tuple[dict[str, Any], Path]
) -> None:
    check_fault(answer[0]["faults"][case], status, message)


def test_damaged_files_are_refused_or_harmless(answer: tuple[dict[str, Any], Path]) -> None:
    """None of them ends the module by a trap, which would be an error of another class."""
    refused = [fault for fault in answer[0]["refused"] if fault]
    assert {status for status, _ in refused} <= {2, 3, 4}
    assert len(refused) > 100
    assert answer[0]["nothing"] == 0


@pytest.mark.parametrize("module", MODULES)
def test_the_module_that_fits_the_host_is_loaded(module: str, home: Path, tmp_path: Path) -> None:
    """The other one is not there."""
    there = [path for path in home.iterdir() if path.name == module or path.name not in MODULES]
    for path in there:
        shutil.copy(path, tmp_path)
    shutil.copy(FIXTURES / "model-2.jcw", tmp_path)
    lines = [
        f"process.chdir({json.dumps(str(tmp_path))});",
        WITHOUT if module == MODULES[0] else "",
        'const { load } = await import("./index.mjs");',
        'await load((await import("node:fs")).readFileSync("model-2.jcw"));',
        'console.log("loaded");',
    ]
    (tmp_path / "use.mjs").write_text("\n".join(lines))
    assert run(*node(home, module), tmp_path / "use.mjs") == "loaded\n"


def test_one_module_multiplies_and_adds_in_one_step(home: Path) -> None:
    counts = [(home / module).read_bytes().count(FINAL) for module in MODULES]
    assert counts[0] < 5, "by chance"
    assert counts[1] > 100


def test_instructions_are_told_from_numbers_that_look_like_them(tmp_path: Path) -> None:
    """A constant and a jump table have the bytes of an instruction of the draft, and an instruction has them."""
    draft = bytes([0xFD, 0xAF, 1])
    constants = b"\x41" + draft + b"\x44\0\0" + 2 * draft + b"\xfd\x0c\0" + 5 * draft
    before = b"\1\1\x7b" + constants + b"\x0e\1" + 2 * draft
    body, changed = [before + code + b"\x0b" for code in (draft, FINAL)]

    def module(body: bytes) -> bytes:
        return b"\0asm\1\0\0\0" + bytes([0, 4, 1, 0x78, 10, 0, 10, len(body) + 2, 1, len(body)]) + body

    (tmp_path / "a.wasm").write_bytes(module(body))
    run(sys.executable, PACKAGE / "cmake" / "relaxed_opcodes.py", tmp_path / "a.wasm")
    assert (tmp_path / "a.wasm").read_bytes() == module(changed)


def test_the_types_are_of_what_is_exported(answer: tuple[dict[str, Any], Path]) -> None:
    types = (WASM / "index.d.mts").read_text()
    declared = re.findall(r"^export (?:function|class) (\w+)", types, re.MULTILINE)
    assert sorted(declared) == sorted(answer[0]["exports"])


def test_the_readme_runs(home: Path) -> None:
    code, _ = re.findall(r"```js\n(.*?)```", (WASM / "README.md").read_text(), re.DOTALL)
    root = home.parents[1]
    (root / "readme.mjs").write_text(code)
    shutil.copy(FIXTURES / "model-2.jcw", root / "model.jcw")
    done = subprocess.run(["node", "readme.mjs"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    best, *steps = done.stdout.splitlines()
    program = Program((root / "model.jcw").read_bytes())
    assert int(best) == program.run(np.zeros((1, 3, 9, 8), np.float32)).argmax()
    assert [line.split()[:2] for line in steps] == [[s.layer, s.kernel] for s in program.profile(rounds=1)]


def test_versions_agree() -> None:
    (version,) = re.findall(r'^version = "(.*)"', (PACKAGE / "pyproject.toml").read_text(), re.MULTILINE)
    assert json.loads((WASM / "package.json").read_text())["version"] == version


DROP = """
<script type="module">
const found = document.createElement("pre");
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const drop = (...files) => {
  const data = new DataTransfer();
  for (const file of files) data.items.add(file);
  dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}));
};
const until = async (condition) => { while (!condition()) await new Promise((done) => setTimeout(done, 5)); };
const canvas = new OffscreenCanvas(WIDTH, HEIGHT);
const pixels = new ImageData(new Uint8ClampedArray(bytes("PIXELS")), WIDTH, HEIGHT);
canvas.getContext("2d").putImageData(pixels, 0, 0);
const error = document.getElementById("error"), outputs = document.getElementById("outputs");
drop(new File([bytes("BAD")], "bad.jcw"));
await until(() => error.textContent);
const complaint = error.textContent;
drop(new File([await canvas.convertToBlob()], "picture.png"), new File(["zero\\none"], "names.txt"),
     new File([bytes("MODEL")], "model.jcw"));
await until(() => !outputs.hidden || error.textContent);
const rows = [...outputs.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
console.log("found " + JSON.stringify({complaint, rows, error: error.textContent}));
</script>
"""


@pytest.mark.parametrize("module", MODULES)
def test_a_dropped_picture_is_classified(
    module: str, home: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    """By the one of the modules that fits the browser; the page has nothing in the other's place."""
    need("chromium")
    (unused,) = {*MODULES} - {module}
    (tmp_path / "modules").mkdir()
    shutil.copy(home / module, tmp_path / "modules")
    (tmp_path / "modules" / unused).write_bytes(b"")
    model = fixture_file("model-2")
    pixels = np.full((9, 8, 4), 255, np.uint8)
    pixels[:, :, :3] = rng.integers(0, 256, (9, 8, 3))
    script = DROP.replace("WIDTH", "8").replace("HEIGHT", "9")
    for name, data in (("PIXELS", pixels.tobytes()), ("BAD", model[:-1]), ("MODEL", model)):
        script = script.replace(name, b64encode(data).decode())
    if module == MODULES[0]:
        script = f"<script>{WITHOUT}</script>{script}"
    demo(tmp_path / "modules", script, tmp_path / "page.html")
    found = printed(tmp_path / "page.html", tmp_path / "browser")
    assert (found["error"], len(found["rows"])) == ("", 5)
    assert "data_offsets" in found["complaint"]
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    image = ((pixels[None, :, :, :3] / 255 - mean) / deviation).transpose(0, 3, 1, 2)
    want = Program(model).run(np.ascontiguousarray(image, np.float32))[0]
    best = np.argsort(-want)
    assert [row[0] for row in found["rows"]] == [["zero", "one", "2", "3", "4"][i] for i in best]
    got = [float(row[1]) for row in found["rows"]]
    np.testing.assert_allclose(got, want[best], rtol=2e-4, atol=1e-4)
    softmax = np.exp(want - want.max()) / np.exp(want - want.max()).sum()
    np.testing.assert_allclose(
        [float(row[2].split()[0]) for row in found["rows"]], 100 * softmax[best], atol=0.06
    )

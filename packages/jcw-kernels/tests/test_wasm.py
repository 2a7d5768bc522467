"""The npm package in Node, and its demo page in Chromium, compute what numpy and Python do."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import need
from random_programs import random_program

from jcw_kernels import Program

PACKAGE = Path(__file__).resolve().parents[1]
HERE = Path(__file__).parent
WASM = PACKAGE / "wasm"
PROGRAMS = 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The npm package as it is installed."""
    need("emcc", "cmake", "node")
    build = PACKAGE / "build" / "wasm"
    build.mkdir(parents=True, exist_ok=True)
    folder = tmp_path_factory.mktemp("npm") / "node_modules" / "jcw-wasm"
    with open(build / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            ["emcmake", "cmake", "-S", PACKAGE, "-B", build, "-DJCW_PYTHON=OFF"],
            ["cmake", "--build", build, "--parallel", "2"],
            ["cmake", "--install", build, "--prefix", folder],
        ):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    for name in json.loads((WASM / "package.json").read_text())["files"] + ["package.json"]:
        if name != "jcw.wasm":
            shutil.copy(WASM / name, folder)
    return folder


@pytest.fixture(scope="module")
def answer(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What wasm_cases.mjs prints, and the folder of its files."""
    folder = tmp_path_factory.mktemp("programs")
    for number in range(PROGRAMS):
        draft = random_program(np.random.default_rng(number))
        (folder / f"{number}.jcw").write_bytes(draft.file())
        (folder / f"{number}.raw").write_bytes(draft.image.tobytes())
    (folder / f"{PROGRAMS}.jcw").write_bytes((HERE / "fixtures" / "model-2.jcw").read_bytes())
    (folder / f"{PROGRAMS}.raw").write_bytes(np.ones((3, 9, 8), np.float32).tobytes())
    command = ["node", HERE / "wasm_cases.mjs", home, folder]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_programs_compute_what_numpy_does(number: int, answer: tuple[dict[str, Any], Path]) -> None:
    draft = random_program(np.random.default_rng(number))
    largest = max(1.0, *(np.abs(value).max() for value in draft.values))
    got = np.fromfile(answer[1] / f"{number}.out", np.float32)
    want = draft.values[-1].reshape(-1)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 3e-5 * largest


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
    found = answer[0]["faults"][case]
    assert found is not None
    assert found[0] == status
    assert message in found[1]


def test_damaged_files_are_refused_or_harmless(answer: tuple[dict[str, Any], Path]) -> None:
    """None of them ends the module by a trap, which would be an error of another class."""
    refused = [fault for fault in answer[0]["refused"] if fault]
    assert {status for status, _ in refused} <= {2, 3, 4}
    assert len(refused) > 100
    assert answer[0]["nothing"] == 0


def test_the_types_are_of_what_is_exported(answer: tuple[dict[str, Any], Path]) -> None:
    types = (WASM / "index.d.mts").read_text()
    declared = re.findall(r"^export (?:function|class) (\w+)", types, re.MULTILINE)
    assert sorted(declared) == sorted(answer[0]["exports"])


def test_the_readme_runs(home: Path) -> None:
    (code,) = re.findall(r"```js\n(.*?)```", (WASM / "README.md").read_text(), re.DOTALL)
    root = home.parents[1]
    (root / "readme.mjs").write_text(code)
    shutil.copy(HERE / "fixtures" / "model-2.jcw", root / "model.jcw")
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


def test_a_dropped_picture_is_classified(home: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    need("chromium")
    model = (HERE / "fixtures" / "model-2.jcw").read_bytes()
    pixels = np.full((9, 8, 4), 255, np.uint8)
    pixels[:, :, :3] = rng.integers(0, 256, (9, 8, 3))
    subprocess.run(
        [sys.executable, WASM / "single_page.py", home / "jcw.wasm", tmp_path / "page.html"], check=True
    )
    script = DROP.replace("WIDTH", "8").replace("HEIGHT", "9")
    for name, data in (("PIXELS", pixels.tobytes()), ("BAD", model[:-1]), ("MODEL", model)):
        script = script.replace(name, b64encode(data).decode())
    page = (tmp_path / "page.html").read_text()
    (tmp_path / "page.html").write_text(page.replace("</body>", f"{script}</body>"))
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


def printed(page: Path, profile: Path) -> dict[str, Any]:
    """What a page in headless Chromium writes to its console, as JSON after the word ``found``."""
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", "--remote-debugging-port=0", page.as_uri(),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as browser:
        watchdog = threading.Timer(180, browser.kill)
        watchdog.start()
        try:
            assert browser.stderr is not None
            lines = []
            for line in browser.stderr:
                said = re.search(r'"found (\{.*\})", source', line)
                if said:
                    result: dict[str, Any] = json.loads(said[1])
                    return result
                lines.append(line)
        finally:
            watchdog.cancel()
            browser.terminate()
    raise AssertionError("".join(lines))

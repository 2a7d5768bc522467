"""libjcw for ARM, static, in the example program, as an emulated Cortex-A72 runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from jcw_kernels import Program

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "packages" / "jcw-kernels"
sys.path.insert(0, str(PACKAGE / "tests"))
from old_models import FIXTURES, IMAGE, OUTPUTS, check  # noqa: E402

MODEL = FIXTURES / "model-2.jcw"


def run(*words: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs_on_arm(aarch64_program: Path, tmp_path: Path) -> None:
    build, prefix = aarch64_program.parent, tmp_path / "installed"
    run("cmake", "-S", PACKAGE, "-B", build, "-DJCW_LIBRARY=ON")
    run("cmake", "--build", build, "--target", "jcw", "jcw_static")
    run("cmake", "--install", build, "--prefix", prefix)
    examples = [
        "-S",
        ROOT / "examples" / "c",
        "-B",
        tmp_path / "examples",
        f"-Djcw_DIR={prefix}/lib/cmake/jcw",
    ]
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={PACKAGE / 'cmake' / 'aarch64.cmake'}"
    run("cmake", *examples, toolchain, "-DCMAKE_EXE_LINKER_FLAGS=-static")
    run("cmake", "--build", tmp_path / "examples", "--target", "run_static")
    image = np.random.default_rng(0).standard_normal((2, 3, 9, 8), dtype=np.float32)
    image.tofile(tmp_path / "in.raw")
    files = [MODEL, tmp_path / "in.raw", tmp_path / "out.raw"]
    emulated = ["qemu-aarch64-static", "-cpu", "cortex-a72", tmp_path / "examples" / "run_static"]
    said = run(*emulated, *files)
    program = Program(MODEL.read_bytes(), isa="scalar")
    assert [line.split()[0] for line in said.splitlines()] == [
        step.layer for step in program.profile(rounds=1)
    ]
    want = program.run(image)
    got = np.fromfile(tmp_path / "out.raw", np.float32).reshape(want.shape)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    IMAGE.tofile(tmp_path / "in.raw")
    for name in OUTPUTS:
        run(*emulated, FIXTURES / f"{name}.jcw", *files[1:])
        check(name, np.fromfile(tmp_path / "out.raw", np.float32))
    image.tofile(tmp_path / "in.raw")
    whole = MODEL.read_bytes()
    (tmp_path / "bad.jcw").write_bytes(whole[:-4] + bytes(4 * [whole[-1] ^ 1]))
    done = subprocess.run(
        [*map(str, emulated), tmp_path / "bad.jcw", *files[1:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the file is damaged" in done.stderr

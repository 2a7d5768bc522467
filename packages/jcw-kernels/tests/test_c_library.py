"""libjcw as it is installed: its symbols, and the examples in C and C++ as its users would build them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_library import ARGUMENTS, library
from device_program import built
from old_models import FIXTURES, IMAGE, OUTPUTS, check
from programs import needs

from jcw_kernels import Program

PACKAGE = Path(__file__).parents[1]
EXAMPLES = PACKAGE.parents[1] / "examples" / "c"
MODEL = FIXTURES / "model-2.jcw"
STRICT = "-pedantic -Wall -Wextra -Werror"

pytestmark = needs("cmake", "c++", "nm", "pkg-config")


def run(*words: object, **environment: str) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", Path(built()).parent, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def built_by_cmake(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("cmake")
    flags = [f"-DCMAKE_{language}_FLAGS={STRICT}" for language in ("C", "CXX")]
    run("cmake", "-S", EXAMPLES, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}", *flags)
    run("cmake", "--build", build)
    return build


@pytest.fixture(scope="module")
def built_by_pkg_config(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("pkg-config")
    (pc,) = installed.glob("lib*/**/jcw.pc")

    def flags(*more: str) -> list[str]:
        return shlex.split(
            run("pkg-config", "--cflags", "--libs", *more, "jcw", PKG_CONFIG_PATH=str(pc.parent))
        )

    strict, path = STRICT.split(), f"-Wl,-rpath,{pc.parents[1]}"
    c, cxx = (["cc", "-std=c99", *strict], ["c++", "-std=c++11", *strict])
    run(*c, EXAMPLES / "run.c", *flags(), path, "-o", build / "run")
    run(*cxx, EXAMPLES / "threads.cpp", *flags(), path, "-pthread", "-o", build / "threads")
    whole = [flag for flag in flags("--static") if flag != "-ljcw"]
    run(*c, EXAMPLES / "run.c", "-l:libjcw.a", *whole, "-l:libjcw.a", *whole, "-o", build / "run_static")
    return build


@pytest.mark.parametrize("how", ["built_by_cmake", "built_by_pkg_config"])
def test_the_examples_give_the_bits_of_python(
    how: str, request: pytest.FixtureRequest, tmp_path: Path, rng: np.random.Generator
) -> None:
    build: Path = request.getfixturevalue(how)
    images = rng.standard_normal((3, 3, 9, 8), dtype=np.float32)
    program = Program(MODEL.read_bytes())
    want = program.run(images)
    (tmp_path / "in.raw").write_bytes(images.tobytes())
    for name in ("run", "run_static"):
        out = tmp_path / f"{name}.raw"
        said = run(build / name, MODEL, tmp_path / "in.raw", out)
        assert [line.split()[:2] for line in said.splitlines()] == [
            [step.layer, step.kernel] for step in program.profile(rounds=1)
        ]
        assert out.read_bytes() == want.tobytes()
    run(build / "threads", MODEL, tmp_path / "in.raw", tmp_path / "threads.raw", 5)
    assert (tmp_path / "threads.raw").read_bytes() == 5 * want.tobytes()


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_examples_read_every_version_so_far(name: str, built_by_cmake: Path, tmp_path: Path) -> None:
    (tmp_path / "in.raw").write_bytes(IMAGE.tobytes())
    for example, words in (("run", []), ("run_static", []), ("threads", ["2"])):
        out = tmp_path / f"{example}.raw"
        run(built_by_cmake / example, FIXTURES / f"{name}.jcw", tmp_path / "in.raw", out, *words)
        for outputs in np.fromfile(out, np.float32).reshape(-1, 5):
            check(name, outputs)


def test_the_examples_say_what_is_wrong(built_by_cmake: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jcw").write_bytes(MODEL.read_bytes()[:-1])
    (tmp_path / "in.raw").write_bytes(b"1234")
    for name, words in (("run", []), ("threads", ["2"])):
        for model, problem in (
            (tmp_path / "bad.jcw", "data_offsets"),
            (MODEL, "image_floats is 1, expected"),
        ):
            command = [built_by_cmake / name, model, tmp_path / "in.raw", tmp_path / "out.raw", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"{name}: ")
            assert problem in done.stderr


def exported(library: Path) -> set[str]:
    lines = run("nm", "--dynamic", "--defined-only", library).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines if line.split()[-2] != "A"}


def test_the_shared_library_exports_what_the_header_declares(installed: Path) -> None:
    header = (installed / "include" / "jcw.h").read_text()
    declared = set(re.findall(r"^JCW_API .*?(jcw_\w+)\(", header, re.MULTILINE))
    assert declared == set(ARGUMENTS), "a symbol may be added, and none taken away"
    (shared,) = installed.glob("lib*/**/libjcw.so")
    assert exported(shared) == declared


def test_the_static_library_has_no_other_visible_symbols_of_ours(built_by_pkg_config: Path) -> None:
    """Made part of another shared library, it adds the functions of jcw.h to those that are seen, and nothing else."""
    archive = Path(built()).with_name("libjcw.a")
    shared = built_by_pkg_config / "whole.so"
    run("c++", "-shared", "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-o", shared)
    templates = re.compile(r"_Z(T[VIS])?N?K?St")  # of the standard library, with types of ours
    ours = {name for name in exported(shared) if "jcw" in name and not templates.match(name)}
    assert ours == set(ARGUMENTS)


def test_versions_agree(installed: Path) -> None:
    (version,) = re.findall(r'^version = "(.*)"', (PACKAGE / "pyproject.toml").read_text(), re.MULTILINE)
    (pc,) = installed.glob("lib*/**/jcw.pc")
    assert library().jcw_version().decode() == version
    assert run("pkg-config", "--modversion", pc).strip() == version

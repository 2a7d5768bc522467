"""The Android archive, built for Linux: its classes on a JVM compute what Python does, and it holds what Gradle looks for."""

from __future__ import annotations

import fcntl
import json
import platform
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import numpy as np
import pytest
from c_library import ARGUMENTS
from old_models import FIXTURES, IMAGE, OUTPUTS, SHAPE, check, fixture_file
from programs import need
from random_programs import random_program

from jcw_kernels import Program

PACKAGE = Path(__file__).resolve().parents[1]
HERE = Path(__file__).parent
ANDROID = PACKAGE / "android"
MODEL = FIXTURES / "model-2.jcw"
PROGRAMS = 20
VERSION = re.findall(r'^version = "(.*)"', (PACKAGE / "pyproject.toml").read_text(), re.MULTILINE)[0]

ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}
HOST = ABIS[platform.machine()]
ARM = [
    f"-DCMAKE_TOOLCHAIN_FILE={PACKAGE / 'cmake' / 'aarch64.cmake'}",
    *("-DANDROID_ABI=arm64-v8a", "-DANDROID_PLATFORM_LEVEL=24", "-DANDROID_NDK_MAJOR=27"),
    *("-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DJCW_KERNEL_LEVEL=-O0"),
]
"""The three in the middle are what the NDK's own toolchain file sets; nothing that is built so runs here."""


def run(*words: object, cwd: Path | None = None) -> str:
    done = subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def packed(name: str, folder: Path, *options: str) -> Path:
    """The archive that one build makes of what it and others put into ``folder / "contents"``."""
    need("cmake", "c++", "javac", "readelf")
    build = PACKAGE / "build" / name
    build.mkdir(parents=True, exist_ok=True)
    wanted = ["-DJCW_PYTHON=OFF", "-DJCW_ANDROID=ON", f"-DJCW_AAR_FOLDER={folder / 'contents'}", *options]
    with open(build / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("cmake", "-S", PACKAGE, "-B", build, *wanted)
        run("cmake", "--build", build, "--parallel", "2", "--target", "aar")
        return Path(shutil.copy(build / f"jcw-{VERSION}.aar", folder / f"{name}.aar"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("android")


@pytest.fixture(scope="module")
def unpacked(folder: Path) -> Path:
    """The archive for this machine, and the compiled AndroidCases.java in ``cases``."""
    target = folder / "unpacked"
    with zipfile.ZipFile(packed("android", folder)) as archive:
        archive.extractall(target)
    run(
        "javac",
        "-Xlint:all",
        "-Werror",
        "-cp",
        target / "classes.jar",
        "-d",
        target / "cases",
        HERE / "AndroidCases.java",
    )
    return target


@pytest.fixture(scope="module")
def both(unpacked: Path, folder: Path) -> Path:
    """The archive for this machine and for ARM, unpacked."""
    need("aarch64-linux-gnu-g++")
    target = folder / "both"
    with zipfile.ZipFile(packed("android-arm64", folder, *ARM)) as archive:
        archive.extractall(target)
    return target


def java(home: Path, *words: object, options: tuple[str, ...] = ("-Xcheck:jni",)) -> str:
    """What a program says on a JVM that has the classes and the library of the archive, and watches what the natives do."""
    path = f"{home / 'classes.jar'}:{home / 'cases'}"
    settings = [
        f"-Djava.library.path={home / 'jni' / HOST}",
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
    ]
    said = run("java", *options, *settings, "-cp", path, *words)
    assert "WARNING" not in said
    return said


def cases(home: Path, *words: object, **settings: tuple[str, ...]) -> list[str]:
    return java(home, "io.github.jcw.AndroidCases", *words, **settings).splitlines()


@pytest.fixture(scope="module")
def outputs(unpacked: Path, folder: Path) -> Path:
    """Models N.jcw, images N.raw, and the outputs N.out of the JVM."""
    models = folder / "models"
    models.mkdir()
    for number in range(PROGRAMS):
        rng = np.random.default_rng(number)
        (models / f"{number}.jcw").write_bytes(random_program(rng).file())
        shape = Program((models / f"{number}.jcw").read_bytes()).input_shape
        rng.standard_normal((number % 4, *shape), dtype=np.float32).tofile(models / f"{number}.raw")
    for name in OUTPUTS:
        shutil.copy(FIXTURES / f"{name}.jcw", models)
        IMAGE.tofile(models / f"{name}.raw")
    cases(unpacked, "outputs", models)
    return models


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_programs_give_the_bits_of_python(number: int, outputs: Path) -> None:
    """From arrays and buffers, in one thread and in several."""
    program = Program((outputs / f"{number}.jcw").read_bytes())
    images = np.fromfile(outputs / f"{number}.raw", np.float32).reshape(-1, *program.input_shape)
    assert (outputs / f"{number}.out").read_bytes() == program.run(images).tobytes()


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_version_so_far_is_read(name: str, outputs: Path) -> None:
    got = np.fromfile(outputs / f"{name}.out", np.float32)
    check(name, got)
    assert got.tobytes() == Program(fixture_file(name)).run(IMAGE).tobytes()


def test_threads_do_not_meet(unpacked: Path, outputs: Path) -> None:
    """Neither those that have models of their own, nor those that share one while it is closed."""
    cases(unpacked, "threads", outputs)


def test_shapes_and_steps_are_those_of_python(unpacked: Path) -> None:
    version, shapes, *steps = cases(unpacked, "steps", MODEL)
    assert version == VERSION
    assert shapes == f"{list(SHAPE)}[5, 1, 1]"
    want = Program(MODEL.read_bytes()).profile(rounds=1)
    for step, expected in zip((line.split("\t") for line in steps), want, strict=True):
        assert step[:2] == [expected.layer, expected.kernel]
        assert [float(number) for number in step[2:4]] == [expected.density, expected.macs]
        assert 0 < float(step[4]) < 1


def test_names_of_layers_are_any_text(unpacked: Path, tmp_path: Path) -> None:
    """Also such as Java's own UTF-8 writes otherwise. Version 1 has no checksum."""
    file = fixture_file("model-1")
    (tmp_path / "model.jcw").write_bytes(file.replace(b"stem", "😀".encode()))
    layers = [line.split("\t")[0] for line in cases(unpacked, "steps", tmp_path / "model.jcw")[2:]]
    assert layers == ["😀", "😀", "conv", "dw", "mean", "flat", "fc"]


FAULTS = {
    "truncated": (2, "data_offsets"),
    "truncated buffer": (2, "data_offsets"),
    "empty": (2, "shorter than 8 bytes"),
    "empty buffer": (2, "shorter than 8 bytes"),
    "odd path": (0, ""),
    "absent": (2, "/none/??????.jcw: cannot be opened"),
    "long path": (2, "x????"),
    "zero in path": (1, "path has a zero character"),
    "threads": (1, "threads is 0, expected 1 to 256"),
    "threads of buffer": (1, "threads is 257, expected 1 to 256"),
    "threads of file": (1, "threads is -1, expected 1 to 256"),
    "null file": (1, "file is null"),
    "null buffer": (1, "file is null"),
    "null path": (1, "path is null"),
    "null images": (1, "images is null"),
    "null image": (1, "image is null"),
    "null from": (1, "images is null"),
    "null to": (1, "outputs is null"),
    "size": (1, "images have 217 floats, expected a multiple of 3 x 9 x 8"),
    "size of buffer": (1, "images have 215 floats, expected a multiple of 3 x 9 x 8"),
    "two images": (1, "image is not one image"),
    "no image": (1, "image is not one image"),
    "rounds": (1, "rounds is 0, expected 1 to 1000000"),
    "more outputs": (1, "outputs have 10 floats, expected 5"),
    "no outputs": (1, "outputs have 0 floats, expected 5"),
    "read-only": (1, "outputs are read-only"),
    "heap images": (1, "images are not in a direct buffer"),
    "heap outputs": (1, "outputs are not in a direct buffer"),
    "byte order": (1, "images are in BIG_ENDIAN"),
    "alignment": (1, "images: no direct buffer that is aligned"),
    "nothing": (0, ""),
    "nothing in buffers": (0, ""),
    "still right": (0, ""),
    "closed": (1, "the model was closed"),
    "closed buffers": (1, "the model was closed"),
    "closed profile": (1, "the model was closed"),
}
"""Status and message of each attempt of AndroidCases.faults."""


def answers(lines: list[str]) -> list[tuple[str, int, str]]:
    return [(name, int(status), message) for name, status, message in (line.split("\t") for line in lines)]


def test_faults_are_exceptions_and_end_nothing(unpacked: Path, tmp_path: Path) -> None:
    for name in ("model.jcw", "é😀.jcw"):
        shutil.copy(MODEL, tmp_path / name)
    found = answers(cases(unpacked, "faults", tmp_path / "model.jcw"))
    assert [name for name, _, _ in found] == list(FAULTS)
    for name, status, message in found:
        want, part = FAULTS[name]
        assert (status, part in message) == (want, True), f"{name}: {message}"


def test_natives_check_for_themselves(unpacked: Path) -> None:
    """What the classes never give them is refused, too: null, what is no direct buffer, and ranges outside of one."""
    found = answers(cases(unpacked, "natives", MODEL))
    fine = {"neither", "free", "still right"}
    assert {name for name, status, _ in found if status == 0} == fine
    assert {status for name, status, _ in found if name not in fine} == {1}
    assert len(found) > 20


def test_damaged_files_are_refused_or_harmless(unpacked: Path, tmp_path: Path) -> None:
    """Of every version: the one without a checksum is read further."""
    for name in OUTPUTS:
        shutil.copy(FIXTURES / f"{name}.jcw", tmp_path)
    (line,) = cases(unpacked, "damage", tmp_path)
    fine, argument, file, device, memory, internal = json.loads(line)
    assert file > 200
    assert (argument, internal) == (0, 0)
    assert fine + file + device + memory == 600


@pytest.mark.parametrize("how", ["closed", "lost"])
def test_loading_again_and_again_takes_no_more_memory(how: str, unpacked: Path) -> None:
    """Whether models are closed or nobody refers to them any more."""
    fixed_heap = ("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch")
    (grown,) = cases(unpacked, "memory", MODEL, how, options=fixed_heap)
    assert int(grown) < 1000 * MODEL.stat().st_size


def test_an_archive_holds_what_gradle_looks_for(unpacked: Path) -> None:
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith("cases/")} == {
        *("AndroidManifest.xml", "R.txt", "classes.jar", "proguard.txt", "prefab/prefab.json"),
        *("prefab/modules/jcw/module.json", "prefab/modules/jcw/include/jcw.h"),
        *of_abi(HOST),
    }
    manifest = ElementTree.parse(unpacked / "AndroidManifest.xml").getroot()
    assert (manifest.tag, manifest.get("package")) == ("manifest", "io.github.jcw")
    with zipfile.ZipFile(unpacked / "classes.jar") as jar:
        classes = {
            Path(name).stem
            for name in jar.namelist()
            if name.startswith("io/github/jcw/J") or "Model" in name
        }
    assert classes == {"JcwException", "Model"}
    assert (unpacked / "prefab/modules/jcw/include/jcw.h").read_bytes() == (
        PACKAGE / "include/jcw.h"
    ).read_bytes()


def of_abi(abi: str) -> set[str]:
    library = f"prefab/modules/jcw/libs/android.{abi}"
    return {f"jni/{abi}/libjcw_jni.so", f"{library}/abi.json", f"{library}/libjcw.so"}


def test_builds_for_several_abis_share_an_archive(both: Path, unpacked: Path) -> None:
    files = {str(path.relative_to(both)) for path in both.rglob("*") if path.is_file()}
    assert of_abi(HOST) | of_abi("arm64-v8a") <= files
    space = "{http://schemas.android.com/apk/res/android}"
    uses = ElementTree.parse(both / "AndroidManifest.xml").getroot().find("uses-sdk")
    assert uses is not None
    assert uses.get(f"{space}minSdkVersion") == "24"


def test_the_metadata_is_what_prefab_reads(both: Path) -> None:
    """Its version 1, whose reader takes these keys and no others: github.com/google/prefab, api/src/main/kotlin."""

    def read(name: str) -> object:
        return json.loads((both / "prefab" / name).read_text())

    assert re.fullmatch(r"\d+(\.\d+){0,3}", VERSION)
    assert read("prefab.json") == {
        "schema_version": 1,
        "name": "jcw",
        "version": VERSION,
        "dependencies": [],
    }
    assert read("modules/jcw/module.json") == {"export_libraries": []}
    assert read("modules/jcw/libs/android.arm64-v8a/abi.json") == {
        "abi": "arm64-v8a",
        "api": 24,
        "ndk": 27,
        "stl": "none",
    }


def header(library: Path) -> str:
    return run("readelf", "--wide", "--file-header", "--dynamic", "--program-headers", library)


@pytest.mark.parametrize(("abi", "machine"), [("x86_64", "X86-64"), ("arm64-v8a", "AArch64")])
def test_libraries_are_for_their_machine_and_need_the_system_only(
    abi: str, machine: str, request: pytest.FixtureRequest
) -> None:
    if abi == HOST:
        home: Path = request.getfixturevalue("unpacked")
    elif abi == "arm64-v8a":
        home = request.getfixturevalue("both")
    else:
        pytest.skip("nothing builds for x86 here")
    expected = {"libjcw_jni.so": {"JNI_OnLoad"}, "libjcw.so": set(ARGUMENTS)}
    for name in sorted(of_abi(abi)):
        if not name.endswith(".so"):
            continue
        library = home / name
        text = header(library)
        assert re.search(rf"Machine: .*{machine}", text)
        assert f"soname: [{library.name}]" in text, (
            "without a version, which packages for Android have no place for"
        )
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", text))
        assert {re.sub(r"\.so.*|-linux.*", "", lib) for lib in needed} <= {
            *("libc", "libm", "libgcc_s", "libstdc++", "libpthread", "ld")
        }
        assert "RUNPATH" not in text
        pages = [int(line.split()[-1], 16) for line in text.splitlines() if line.split()[:1] == ["LOAD"]]
        assert pages
        assert all(page % 16384 == 0 for page in pages)
        lines = run("nm", "--dynamic", "--defined-only", library).splitlines()
        found = {line.split()[-1].partition("@")[0] for line in lines if line.split()[-2] != "A"}
        assert found == expected[library.name]


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("-DANDROID_ABI=armeabi-v7a", "expected arm64-v8a or x86_64"),
        ("-DANDROID_STL=c++_shared", "expected c++_static"),
    ],
)
def test_what_cannot_be_shipped_is_refused(option: str, problem: str, tmp_path: Path) -> None:
    need("cmake", "c++", "javac")
    options = ["-DJCW_PYTHON=OFF", "-DJCW_ANDROID=ON", "-DANDROID_ABI=x86_64", option]
    command = ["cmake", "-S", PACKAGE, "-B", tmp_path, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert problem in " ".join(done.stderr.split())


def test_shrinkers_keep_what_native_code_looks_up(unpacked: Path) -> None:
    code = (ANDROID / "jni.cpp").read_text()
    rules = (unpacked / "proguard.txt").read_text()
    kept = dict(re.findall(r"^-keep class io\.github\.jcw\.(\w+) \{ (.*); \}$", rules, re.MULTILINE))
    assert set(kept) == set(re.findall(r'FindClass\("io/github/jcw/(\w+)"\)', code))
    letters = {"int": "I", "byte[]": "[B", "double": "D"}
    made = re.findall(r'"<init>", "\((.*)\)V"', code)
    inits = [rule for rule in kept.values() if rule.startswith("<init>")]
    assert sorted(
        "".join(letters[word] for word in rule[len("<init>(") : -1].split(", ")) for rule in inits
    ) == sorted(made)


def test_statuses_are_those_of_the_header() -> None:
    declared = (PACKAGE / "include" / "jcw.h").read_text()
    constants = (ANDROID / "java/io/github/jcw/JcwException.java").read_text()
    found = re.findall(r"int (\w+) = (\d);", constants)
    assert found == re.findall(r"JCW_((?!OK)\w+) = (\d)", declared)


def snippet(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", (ANDROID / "README.md").read_text(), re.DOTALL)
    return str(code)


def test_the_java_of_the_readme_runs(unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Example.java").write_text(snippet("java"))
    shutil.copy(MODEL, tmp_path / "model.jcw")
    monkeypatch.chdir(tmp_path)
    lines = java(unpacked, "Example.java").splitlines()
    program = Program(MODEL.read_bytes())
    want = program.run(np.zeros((1, *SHAPE), np.float32))[0]
    assert [np.float32(line) for line in lines[:5]] == want.tolist()
    assert [line.split()[:2] for line in lines[5:]] == [
        [s.layer, s.kernel] for s in program.profile(rounds=1)
    ]


def test_the_cmake_of_the_readme_builds(unpacked: Path, tmp_path: Path) -> None:
    """With the package that libjcw installs: it has the names of the one that Prefab makes of the archive."""
    run("cmake", "--install", PACKAGE / "build" / "android", "--prefix", tmp_path / "installed")
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES CXX)\n{snippet('cmake')}"
    )
    (tmp_path / "app.cpp").write_text(
        '#include "jcw.h"\nextern "C" const char* app() { return jcw_version(); }\n'
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}")
    run("cmake", "--build", tmp_path / "build")
    assert "[libjcw.so]" in header(tmp_path / "build" / "libapp.so")


def test_the_readme_has_the_version() -> None:
    assert set(re.findall(r"jcw-(\d[\d.]*)\.aar", (ANDROID / "README.md").read_text())) == {VERSION}

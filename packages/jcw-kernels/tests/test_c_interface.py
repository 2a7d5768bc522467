"""jcw.h computes what Python does, and answers everything else with a status and a message."""

from __future__ import annotations

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest
from c_library import BAD_ARGUMENT, BAD_FILE, NO_DEVICE, OK, CModel, Shape, Step, error, floats, library
from old_models import FIXTURES, IMAGE, OUTPUTS, SHAPE, check, fixture_file
from random_programs import random_program

from jcw_kernels import Program

FILE = fixture_file("model-2")


def test_random_programs_give_the_bits_of_python(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JCW_ISA", isa)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        file = random_program(rng).file()
        program, model = Program(file), CModel(file, threads=1 + seed % 3)
        assert model.shapes()[0] == program.input_shape
        assert int(np.prod(model.shapes()[1])) == program.outputs
        images = rng.standard_normal((seed % 4, *program.input_shape), dtype=np.float32)
        assert model.run(images).tobytes() == program.run(images).tobytes()


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_version_so_far_is_read(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JCW_ISA", isa)
    outputs = CModel(fixture_file(name)).run(IMAGE)
    check(name, outputs)
    assert outputs.tobytes() == Program(fixture_file(name)).run(IMAGE).tobytes()


def test_files_are_loaded_by_path() -> None:
    handle = c_void_p()
    assert library().jcw_load_file(bytes(FIXTURES / "model-2.jcw"), 1, byref(handle)) == OK
    input, output = Shape(), Shape()
    assert library().jcw_shapes(handle, byref(input), byref(output)) == OK
    assert (input.channels, input.height, input.width, output.channels) == (*SHAPE, 5)
    library().jcw_free(handle)


@pytest.mark.parametrize("capacity", [0, 1, 3, 100])
def test_a_profile_names_the_steps_that_python_names(capacity: int) -> None:
    model = CModel(FILE)  # the texts are its own
    steps, count = model.profile(np.zeros(SHAPE, np.float32), 2, capacity)
    want = Program(FILE).profile(rounds=1)
    assert count == len(want)
    for step, expected in zip(steps, want[:capacity], strict=False):
        assert (step.layer.decode(), step.kernel.decode()) == (expected.layer, expected.kernel)
        assert (step.density, step.macs) == (expected.density, expected.macs)
        assert 0 < step.seconds < 1
    assert [step.layer for step in steps[count:]] == [None] * max(0, capacity - count)


def test_null_is_refused_by_name() -> None:
    lib, model, shape, count, array = library(), CModel(FILE), Shape(), c_size_t(), np.zeros(216, np.float32)
    handle = model.handle
    calls = {
        "model": [
            lambda: lib.jcw_load(FILE, len(FILE), 1, None),
            lambda: lib.jcw_load_file(b"x", 1, None),
            lambda: lib.jcw_shapes(None, byref(shape), byref(shape)),
            lambda: lib.jcw_run(None, floats(array), 216, floats(array), 5),
            lambda: lib.jcw_profile(None, floats(array), 216, 1, None, 0, byref(count)),
        ],
        "bytes": [lambda: lib.jcw_load(None, 0, 1, byref(c_void_p()))],
        "path": [lambda: lib.jcw_load_file(None, 1, byref(c_void_p()))],
        "input": [lambda: lib.jcw_shapes(handle, None, byref(shape))],
        "output": [lambda: lib.jcw_shapes(handle, byref(shape), None)],
        "images": [lambda: lib.jcw_run(handle, None, 216, floats(array), 5)],
        "outputs": [lambda: lib.jcw_run(handle, floats(array), 216, None, 5)],
        "image": [lambda: lib.jcw_profile(handle, None, 216, 1, (Step * 1)(), 1, byref(count))],
        "steps": [lambda: lib.jcw_profile(handle, floats(array), 216, 1, None, 1, byref(count))],
        "count": [lambda: lib.jcw_profile(handle, floats(array), 216, 1, (Step * 1)(), 1, None)],
    }
    for name, attempts in calls.items():
        for attempt in attempts:
            assert (attempt(), error()) == (BAD_ARGUMENT, f"{name} is null")
    lib.jcw_free(None)


HUGE = 2**64 - 1


@pytest.mark.parametrize(
    ("image_floats", "output_floats", "name"),
    [
        (215, 5, "image_floats"),
        (217, 5, "image_floats"),
        (1, 0, "image_floats"),
        (216, 0, "output_floats"),
        (216, 4, "output_floats"),
        (216, 10, "output_floats"),
        (432, 5, "output_floats"),
        (0, 5, "output_floats"),
        (HUGE, 5, "image_floats"),
        (216, HUGE, "output_floats"),
        (HUGE // 216 * 216, (HUGE // 216 * 5) % 2**64 - 5, "output_floats"),
    ],
)
def test_wrong_sizes_are_refused(image_floats: int, output_floats: int, name: str) -> None:
    array = np.zeros(1, np.float32)  # nothing of it may be read
    model = CModel(FILE)
    status = library().jcw_run(model.handle, floats(array), image_floats, floats(array), output_floats)
    assert status == BAD_ARGUMENT
    assert error().startswith(f"{name} is ")


def test_no_images_are_no_outputs() -> None:
    model = CModel(FILE)
    assert library().jcw_run(model.handle, None, 0, None, 0) == OK


@pytest.mark.parametrize("threads", [0, -1, 257, -(2**31)])
def test_threads_out_of_range(threads: int) -> None:
    handle = c_void_p(1)
    assert library().jcw_load(FILE, len(FILE), threads, byref(handle)) == BAD_ARGUMENT
    assert error() == f"threads is {threads}, expected 1 to 256"
    assert not handle


@pytest.mark.parametrize("rounds", [0, -5, 10**6 + 1])
def test_rounds_out_of_range(rounds: int) -> None:
    with pytest.raises(RuntimeError, match=f"rounds is {rounds}, expected 1 to 1000000") as caught:
        CModel(FILE).profile(np.zeros(SHAPE, np.float32), rounds, 1)
    assert caught.value.args[0] == BAD_ARGUMENT


def test_unknown_instruction_sets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JCW_ISA", "sse")
    handle = c_void_p(1)
    assert library().jcw_load(FILE, len(FILE), 1, byref(handle)) == NO_DEVICE
    assert "'sse' is not available" in error()
    assert not handle


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(FILE[:-1])
    for name, problem in (("absent", "cannot be opened"), (".", "cannot be read"), ("short", "data_offsets")):
        path, handle = tmp_path / name, c_void_p(1)
        assert library().jcw_load_file(bytes(path), 1, byref(handle)) == BAD_FILE
        assert error().startswith(f"{path}: ")
        assert problem in error()
        assert not handle


def test_every_truncated_file_is_refused() -> None:
    for size in range(0, len(FILE), 7):
        with pytest.raises(RuntimeError, match=r".") as caught:
            CModel(FILE[:size])
        assert caught.value.args[0] == BAD_FILE


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_flipped_byte_is_refused_or_harmless(name: str, rng: np.random.Generator) -> None:
    """Of version 1, too, where no checksum ends the reading early."""
    file = fixture_file(name)
    image = np.zeros((1, *SHAPE), np.float32)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(file)
        for at in rng.integers(0, len(file), rng.integers(1, 4)):
            damaged[at] = rng.integers(256)
        try:
            model = CModel(bytes(damaged))
            if model.shapes()[0] == SHAPE:
                model.run(image)
        except RuntimeError as failure:
            status, message = failure.args
            assert status in (BAD_FILE, NO_DEVICE)
            assert message.isprintable()
            refused += 1
    assert refused > 150


def test_any_bytes_are_refused(rng: np.random.Generator) -> None:
    for size in range(300):
        noise = rng.bytes(size)
        for file in (noise, struct.pack("<Q", size) + noise):
            with pytest.raises(RuntimeError) as caught:
                CModel(file)
            assert caught.value.args[0] == BAD_FILE


def test_each_thread_has_its_own_message() -> None:
    with pytest.raises(RuntimeError):
        CModel(b"")
    ours, others = error(), []

    def fail() -> None:
        others.append(error())
        library().jcw_load(FILE, len(FILE), 0, byref(c_void_p()))
        others.append(error())

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert others == ["", "threads is 0, expected 1 to 256"]
    assert error() == ours == "the file is shorter than 8 bytes"


def test_models_of_several_threads_do_not_meet(rng: np.random.Generator) -> None:
    drafts = [random_program(np.random.default_rng(seed)) for seed in range(8)]
    want = [Program(draft.file()).run(draft.image).tobytes() for draft in drafts]

    def work(draft: int) -> list[bytes]:
        found = []
        for _ in range(10):
            model = CModel(drafts[draft].file(), threads=1 + draft % 2)
            found += [model.run(drafts[draft].image).tobytes() for _ in range(5)]
        return found

    with ThreadPoolExecutor(len(drafts)) as pool:
        for expected, found in zip(want, pool.map(work, range(len(drafts))), strict=True):
            assert set(found) == {expected}


def test_one_model_serves_threads_in_turn(rng: np.random.Generator) -> None:
    images = rng.standard_normal((8, 1, *SHAPE), dtype=np.float32)
    model, want = CModel(FILE, threads=2), Program(FILE).run(images[:, 0])
    for image, expected in zip(images, want, strict=True):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(model.run, image).result().tobytes() == expected.tobytes()

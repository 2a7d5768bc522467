"""model.jcw: what is in it, and what a damaged one does."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from kernel_samples import weights_for
from numpy.typing import NDArray
from old_models import FIXTURES, IMAGE, OUTPUTS, check, fixture_file
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.errors import FormatError, JcwError
from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.protocols import Precision
from jcw_kernels import Program, compile_model, load
from jcw_kernels.model_file import FORMAT, checksum, program_of, serialize


@pytest.fixture
def model(rng: np.random.Generator) -> Model:
    b = NetworkBuilder("tiny", (3, 9, 8))
    b.conv("conv", 10, 3)
    b.batch_norm("bn")
    b.add("relu", "relu")
    b.depthwise("dw", 3, 2)
    b.add("mean", "global_avg_pool")
    b.add("flat", "flatten")
    b.linear("fc", 5)
    network = b.build()
    return Model(network, weights_for(network, rng, 0.3), Architecture({"conv": 10}, {"conv": 0.3}))


@pytest.fixture
def file(model: Model) -> bytes:
    return serialize(model)


def parts(file: bytes) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    length = struct.unpack("<Q", file[:8])[0]
    return json.loads(file[8 : 8 + length])["__metadata__"], load_tensors(file)


def changed(
    file: bytes, program: Callable[[dict[str, Any]], object] | None = None, **tensors: NDArray[Any] | None
) -> bytes:
    """The file with another program (a function of the old) or other tensors."""
    metadata, arrays = parts(file)
    if program:
        document = json.loads(metadata["program"])
        program(document)
        metadata["program"] = json.dumps(document)
    arrays = {**arrays, **{name.replace("_", ".", 1): array for name, array in tensors.items()}}
    return sealed({k: v for k, v in arrays.items() if v is not None}, metadata)


def sealed(arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> bytes:
    """A file whose checksum is right whatever else is wrong."""
    return save_tensors(arrays, {**metadata, "checksum": checksum(metadata, arrays)})


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_version_so_far_is_read(name: str, isa: str) -> None:
    file = fixture_file(name)
    metadata, _ = parts(file)
    assert metadata["format"] == f"jcw-model/{name.split('-')[1]}"
    check(name, Program(file, isa=isa).run(IMAGE))


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_file_that_does_not_name_its_outputs_has_one(name: str) -> None:
    program = Program(fixture_file(name))
    assert dict(program.output_shapes) == {"output": (program.outputs,)}
    values = program.run(IMAGE)
    np.testing.assert_array_equal(program.split(values)["output"], values)


@pytest.mark.parametrize("text", ["[", "3", "[3]", '[["a", 3]]', '[["a", ["b"]]]'])
def test_outputs_that_cannot_be_read_do_not_stop_a_program(file: bytes, text: str) -> None:
    metadata, arrays = parts(file)
    assert json.loads(metadata["outputs"])
    program = Program(sealed(arrays, metadata | {"outputs": text}))
    assert program.outputs
    with pytest.raises(FormatError, match="what it says of its outputs cannot be read"):
        program.split(np.zeros((1, program.outputs), np.float32))


def test_there_is_a_fixture_of_every_version() -> None:
    """Whoever writes a new version adds one."""
    newest = int(FORMAT.rpartition("/")[2])
    assert {path.stem for path in FIXTURES.iterdir()} == set(OUTPUTS)
    assert {int(name.split("-")[1]) for name in OUTPUTS} == set(range(1, newest + 1))


def test_there_is_a_fixture_of_every_precision() -> None:
    stated = {parts(fixture_file(name))[0].get("precision") for name in OUTPUTS}
    assert stated == {None, *get_args(Precision)}


def test_the_header_states_version_precision_and_checksum(file: bytes) -> None:
    metadata, arrays = parts(file)
    assert metadata["format"] == FORMAT == "jcw-model/7"
    assert metadata["precision"] == "float32"
    data = b"".join(
        [
            *(name.encode() + metadata[name].encode() for name in sorted(metadata) if name != "checksum"),
            *(name.encode() + arrays[name].tobytes() for name in sorted(arrays)),
        ]
    )
    assert metadata["checksum"] == f"crc32:{zlib.crc32(data):08x}"


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        (
            "format",
            "jcw-model/8",
            "of format jcw-model/8, newer than this engine, which reads up to jcw-model/7",
        ),
        ("format", "jcw-model/999999999", "newer than this engine"),
        ("format", "jcw-model/9999999999", "does not say format"),
        ("format", "jcw-model/", "does not say format"),
        ("format", "jcw-model/-1", "does not say format"),
        ("format", "jcw-models/1", "does not say format"),
        ("format", None, "no format"),
        ("precision", "int4", "of precision int4, this engine computes in float32, float16 and int8"),
        ("precision", None, "no precision"),
        ("program", None, "no program"),
    ],
)
def test_other_formats_are_refused_by_name(file: bytes, key: str, value: str | None, match: str) -> None:
    metadata, arrays = parts(file)
    if value is None:
        del metadata[key]
    else:
        metadata[key] = value
    expect(sealed(arrays, metadata), match)


def test_a_newer_format_is_refused_whatever_else_it_holds() -> None:
    expect(save_tensors({"x": np.zeros(1, np.float32)}, {"format": "jcw-model/8"}), "jcw-model/8, newer than")


@pytest.mark.parametrize("value", ["crc32:00000000", "", "CRC32", None])
def test_checksums_that_are_none(file: bytes, value: str | None) -> None:
    metadata, arrays = parts(file)
    del metadata["checksum"]
    expect(save_tensors(arrays, metadata if value is None else {**metadata, "checksum": value}), "checksum")


def test_every_changed_bit_of_the_weights_is_found(file: bytes, rng: np.random.Generator) -> None:
    start = 8 + struct.unpack("<Q", file[:8])[0]
    for at in rng.choice(np.arange(start, len(file)), 200, replace=False):
        damaged = bytearray(file)
        damaged[at] ^= 1 << rng.integers(8)
        expect(bytes(damaged), "the file is damaged: its checksum is crc32:")


def test_tensors_that_changed_places_are_found(file: bytes) -> None:
    metadata, arrays = parts(file)
    arrays["conv.bias"] = arrays["conv.bias"][::-1].copy()
    expect(save_tensors(arrays, metadata), "damaged")
    metadata, arrays = parts(file)
    names = dict(zip(sorted(arrays), sorted(arrays)[1:] + sorted(arrays)[:1], strict=True))
    expect(save_tensors({names[name]: array for name, array in arrays.items()}, metadata), "damaged")


def test_the_same_model_is_the_same_file(model: Model) -> None:
    assert len({serialize(model) for _ in range(20)}) == 1


def test_round_trip(model: Model, tmp_path: Path, rng: np.random.Generator) -> None:
    image = rng.standard_normal((1, 3, 9, 8), dtype=np.float32)
    program = compile_model(model)
    program.save(tmp_path / "model.jcw")
    again = load(tmp_path / "model.jcw")
    assert again.run(image).tobytes() == program.run(image).tobytes()
    again.save(tmp_path / "copy.jcw")
    assert (tmp_path / "copy.jcw").read_bytes() == (tmp_path / "model.jcw").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.jcw", "model.jcw"]


def test_header_holds_network_and_architecture(model: Model, file: bytes) -> None:
    metadata, _ = parts(file)
    assert Network.from_json(metadata["network"]) == model.network
    assert Architecture.from_dict(json.loads(metadata["architecture"])) == model.architecture


def test_convolutions_that_run_together_are_listed_one_by_one() -> None:
    network = MOBILENET_V2.build(num_classes=10, width=0.25, input_size=32)
    units = program_of(network, {})["units"]
    weighted = [node.name for node in network if node.op in ("conv2d", "linear")]
    assert [unit["name"] for unit in units if "out_channels" in unit] == weighted
    depthwise = [i for i, unit in enumerate(units) if unit.get("groups", 1) > 1]
    assert len(depthwise) == 17
    assert all(units[i]["inputs"] == [i] for i in depthwise)


def test_only_kept_weights_are_stored(model: Model, file: bytes) -> None:
    _, arrays = parts(file)
    kept = np.count_nonzero(model.weights["conv.weight"])
    assert arrays["conv.values"].size <= kept + 2 * arrays["conv.values"].shape[0]
    assert "conv.weight" not in arrays


def expect(file: bytes, match: str) -> None:
    with pytest.raises(FormatError, match=match) as caught:
        Program(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 7, 8, 100, -1])
def test_truncated(file: bytes, size: int) -> None:
    expect(file[:size], "bytes|header|JSON|data_offsets")


def test_header_length_overflows(file: bytes) -> None:
    expect(struct.pack("<Q", 2**64 - 1) + file[8:], "header claims")


def test_sizes_that_overflow() -> None:
    for shape in ([2**62, 4], [2**33, 2**33], [-1], [1.5]):
        header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
        expect(struct.pack("<Q", len(header)) + header, "larger|whole number")


@pytest.mark.parametrize("offsets", [[0, 8], [4, 0], [0], [0, 1 << 60], "x"])
def test_offsets_out_of_range(offsets: object) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": offsets}}).encode()
    expect(struct.pack("<Q", len(header)) + header + b"1234", "data_offsets|bytes")


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("op", "conv9d", "unknown operation"),
        ("activation", "gelu", "unknown activation"),
        ("inputs", [7], "an input"),
        ("inputs", [1], "an input"),
        ("inputs", [-1], "an input"),
        ("inputs", [], "inputs"),
        ("residual", 0, "residual"),
        ("out_channels", 1 << 40, "out_channels"),
        ("out_channels", 11, "conv"),
        ("groups", 2, "groups"),
        ("groups", 0, "groups"),
        ("kernel_size", [64, 64], "window"),
        ("kernel_size", [3], "pair"),
        ("stride", [0, 1], "stride"),
        ("padding", [-1, 0], "padding"),
        ("padding", [1 << 30, 1 << 30], "padding"),
    ],
)
def test_malformed_units(file: bytes, key: str, value: object, match: str) -> None:
    expect(changed(file, lambda p: p["units"][0].update({key: value})), match)


def test_malformed_programs(file: bytes) -> None:
    expect(changed(file, lambda p: p.update(input=[65536, 65536, 65536])), "too large|conv|channels")
    expect(changed(file, lambda p: p.update(input=[3, 0, 8])), "input")
    expect(changed(file, lambda p: p.update(output=99)), "output")
    expect(changed(file, lambda p: p.pop("units")), "units is missing")


@pytest.mark.parametrize(
    ("op", "size", "kernel", "stride", "padding"),
    [
        ("avg_pool", 65536, 182, 183, 91),
        ("max_pool", 65536, 182, 182, 91),
        ("max_pool", 1, 4096, 4096, 2048),
        ("avg_pool", 1, 4096, 4095, 2048),
    ],
)
def test_strides_with_too_many_phases(op: str, size: int, kernel: int, stride: int, padding: int) -> None:
    unit = {
        "name": "p",
        "op": op,
        "inputs": [0],
        "kernel_size": [kernel] * 2,
        "stride": [stride] * 2,
        "padding": [padding] * 2,
    }
    program = json.dumps({"input": [size, 1, 1], "units": [unit], "output": 1})
    file = save_tensors({"z": np.zeros(1, np.float32)}, {"format": "jcw-model/1", "program": program})
    with pytest.raises(JcwError, match=r"unit p: .*more than a million planes"):
        Program(file)


def test_malformed_tensors(file: bytes) -> None:
    _, arrays = parts(file)
    mask, values = arrays["conv.mask"], arrays["conv.values"]
    expect(changed(file, conv_bias=None), "conv.bias is missing")
    expect(changed(file, conv_bias=np.zeros(3, np.float32)), "conv.bias")
    expect(changed(file, conv_bias=np.full(10, np.nan, np.float32)), "conv.bias holds NaN")
    expect(changed(file, conv_mask=mask[:-1]), "conv.mask")
    expect(changed(file, conv_mask=np.full_like(mask, 255)), "conv.values|conv.mask")
    expect(changed(file, conv_values=values[:-1]), "conv.values")
    expect(changed(file, conv_values=np.full_like(values, np.inf)), "conv.values holds NaN")
    expect(changed(file, fc_bias=np.zeros(5, np.float64)), "of type F64, expected F32, F16, I8 or U8")
    expect(
        changed(file, fc_bias=np.zeros(20, np.uint8)), "20 bytes of U8, expected 5 values of F32, F16 or I8"
    )
    expect(changed(file, fc_bias=np.zeros(10, np.float16)), "20 bytes of F16, expected 5 values")
    expect(changed(file, fc_bias=np.full(5, np.inf, np.float16)), "fc.bias holds NaN")
    expect(changed(file, fc_bias=np.full(5, np.nan, np.float16)), "fc.bias holds NaN")


def test_mask_bits_past_its_end(file: bytes) -> None:
    _, arrays = parts(file)
    mask, values = arrays["conv.mask"].copy(), arrays["conv.values"]
    mask[-1] |= 0x80  # 3 groups x 27 positions = 81 bits
    expect(changed(file, conv_mask=mask, conv_values=np.vstack([values, values[:1]])), "past its end")


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"absent\.jcw: No such file"):
        load(tmp_path / "absent.jcw")
    (tmp_path / "bad.jcw").write_bytes(b"x" * 100)
    with pytest.raises(FormatError, match=r"bad\.jcw: .*header"):
        load(tmp_path / "bad.jcw")


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_flipped_byte_is_refused_or_harmless(name: str, rng: np.random.Generator) -> None:
    """Of version 1, too, where no checksum ends the reading early."""
    file = fixture_file(name)
    image = np.zeros((1, 3, 9, 8), np.float32)
    for _ in range(3000):
        damaged = bytearray(file)
        for at in rng.integers(0, len(file), rng.integers(1, 4)):
            damaged[at] = rng.integers(256)
        try:
            program = Program(bytes(damaged))
            if program.input_shape == (3, 9, 8):
                program.run(image)
        except JcwError:
            pass

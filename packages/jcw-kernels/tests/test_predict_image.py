"""Models that take image files: normalisation inside them, and ``jcw predict-image``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from image_models import IMAGES, model

from jcw_core.datasets.split import normalise
from jcw_core.errors import DataError, FormatError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.image_input import ImageInput
from jcw_core.network.model import Model
from jcw_core.network.normalisation import with_normalisation
from jcw_kernels.exporter import JcwExporter
from jcw_kernels.predict_image import as_probabilities, classes_in, predict_image
from jcw_kernels.program import compile_model, load

Image = pytest.importorskip("PIL.Image", reason="image files need jcw-core[images]")


@given(
    st.sampled_from([0, 1]), st.sampled_from([1, 3]), st.booleans(), st.booleans(), st.integers(1, 2), st.integers(0, 99)
)  # fmt: skip
def test_pixels_in_the_same_outputs_out(
    padding: int, groups: int, bias: bool, norm: bool, branches: int, seed: int
) -> None:
    """Black, white and all between, at the borders as well."""
    before = model(padding, groups, bias=bias, norm=norm, branches=branches)
    after = with_normalisation(before)
    assert after.images is not None
    assert after.images.takes_pixels
    assert (after.images.classes, after.images.resize) == (IMAGES.classes, IMAGES.resize)
    pixels = np.random.default_rng(seed).integers(0, 256, (3, 3, 12, 10)).astype(np.uint8)
    pixels[0], pixels[1] = 0, 255
    wanted = compile_model(before).run(normalise(pixels, IMAGES))
    found = compile_model(after).run(pixels.astype(np.float32))
    np.testing.assert_allclose(found, wanted, atol=3e-5 * max(1.0, float(np.abs(wanted).max())))
    np.testing.assert_allclose(normalise(pixels, after.images), pixels, rtol=1e-6)


def test_weights_take_it_in_where_nothing_is_padded() -> None:
    folded = with_normalisation(model(0, 1, bias=False, norm=True))
    assert len(folded.network.shapes) == len(model(0, 1, bias=False, norm=True).network.shapes)
    padded = with_normalisation(model(1, 1, bias=False, norm=True))
    assert "normalise" in padded.network


def test_what_is_known_of_images_travels_in_the_file(tmp_path: Path) -> None:
    JcwExporter().export(model(1, 1, bias=True, norm=False), tmp_path / "model.jcw")
    assert load(tmp_path / "model.jcw").images == IMAGES
    plain = replace(model(1, 1, bias=True, norm=False), images=None)
    assert compile_model(plain).images is None


@pytest.mark.parametrize(
    "change",
    [{"std": [0.0, 1.0, 1.0]}, {"mean": 3}, {"mean": []}, {"resize": "x"}, {"resize": 0}, {"mean": [0.5, "x", 0.5]}, {"classes": None}],
)  # fmt: skip
def test_damaged_words_about_images_are_refused(change: dict[str, object]) -> None:
    document = json.loads(IMAGES.to_json()) | change
    with pytest.raises(FormatError):
        ImageInput.from_json(json.dumps(document))
    with pytest.raises(FormatError):
        ImageInput.from_json("[")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.jcw"
    JcwExporter().export(with_normalisation(model(1, 1, bias=True, norm=True)), path)
    return path


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(1).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_a_photo_is_resized_cut_normalised_and_classified(file: Path, photo: Path) -> None:
    """Held to Pillow and to softmax by hand, on the model that does not normalise itself."""
    done = CliRunner().invoke(predict_image, [str(file), str(photo), "--json", "--top", "4"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    image = Image.open(photo).resize((24, 16), Image.Resampling.BILINEAR).crop((7, 2, 17, 14))
    pixels = np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)[None])
    outputs = compile_model(model(1, 1, bias=True, norm=True)).run(normalise(pixels, IMAGES))[0].astype(float)
    wanted = np.exp(outputs - outputs.max())
    wanted /= wanted.sum()
    classes = found["images"][0]["classes"]
    assert [one["label"] for one in classes] == np.argsort(-wanted, kind="stable").tolist()
    assert [one["name"] for one in classes] == [IMAGES.classes[one["label"]] for one in classes]
    np.testing.assert_allclose([one["probability"] for one in classes], np.sort(wanted)[::-1], rtol=1e-3)
    assert found["latency_ms"] > 0


def test_the_best_classes_are_printed_with_their_names(file: Path, photo: Path) -> None:
    lines = CliRunner().invoke(predict_image, [str(file), str(photo), "--top", "2"]).output.splitlines()
    assert lines[0].endswith("ms an image")
    assert lines[1] == f"{photo}:"
    assert len(lines) == 4
    assert lines[2].split("%")[1].strip() in IMAGES.classes


def test_probabilities_are_taken_as_they_are() -> None:
    values = np.array([0.25, 0.5, 0.25], dtype=np.float32)
    np.testing.assert_array_equal(as_probabilities(values), values)
    np.testing.assert_allclose(as_probabilities(np.array([1000.0, 0.0, 1000.0], "f4")), [0.5, 0, 0.5])


def test_what_cannot_be_predicted_is_named(file: Path, photo: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.jcw"
    JcwExporter().export(replace(model(1, 1, bias=True, norm=False), images=None), plain)
    broken = tmp_path / "broken.png"
    broken.write_bytes(photo.read_bytes()[:99])
    for arguments, kind, message in (
        ((plain, photo), FormatError, "plain.jcw: does not say how an image becomes its input"),
        ((file, broken), DataError, "broken.png: cannot be decoded"),
        ((file, tmp_path / "none.png"), DataError, "none.png: cannot be read"),
        ((tmp_path / "none.jcw", photo), FormatError, "none.jcw: No such file"),
    ):
        with pytest.raises((kind, click.ClickException), match=message):
            predict_image.main(list(map(str, arguments)), standalone_mode=False)


@pytest.mark.parametrize("maps", [1, 2])
def test_a_network_that_makes_maps_is_not_asked_for_classes(maps: int, photo: Path, tmp_path: Path) -> None:
    net = NetworkBuilder("maps", (3, 12, 10))
    ends = [net.conv(f"head{number}", 2 + number, 1, source="input") for number in range(maps)]
    network = net.build_joined(ends)
    shapes = network.parameter_shapes.items()
    made = Model(
        network,
        {name: np.ones(shape, np.float32) for name, shape in shapes},
        images=replace(IMAGES, classes=()),
    )
    JcwExporter().export(made, tmp_path / "model.jcw")
    told = "output 2x12x10" if maps == 1 else "head0 2x12x10, head1 3x12x10"
    with pytest.raises(FormatError, match=rf"model\.jcw: does not classify, but makes {told};"):
        predict_image.main([str(tmp_path / "model.jcw"), str(photo)], standalone_mode=False)


@pytest.mark.parametrize("name", ["model.onnx", "model.safetensors", "table.npz", "notes", "model.jcw"])
def test_a_file_that_is_no_model_is_not_to_be_exported_again(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bytes(range(200)))
    with pytest.raises(FormatError, match=re.escape(str(tmp_path / name))) as caught:
        load(tmp_path / name)
    assert ("export the model again" in str(caught.value)) == (name == "model.jcw")
    assert ("give the model.jcw that" in str(caught.value)) == (name != "model.jcw")


def test_a_folder_of_photos_is_told_from_a_photo(file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Is a directory\); give its images"):
        classes_in(load(file), tmp_path, file)

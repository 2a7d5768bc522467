"""Fronts and chosen models: read as they were written, and damaged ones are one error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.architecture import Architecture
from jcw_core.errors import FormatError
from jcw_core.files import write_json
from jcw_core.records import Candidate, ChosenModel, Front, read_exports, write_exports

FRONT = Front(
    "net",
    {"latency": "ms", "error": ""},
    [Candidate(Architecture({"a": 4}, {"l": 0.5}), {"latency": 1.5, "error": 0.25})],
    {"generations": 2},
)
MODEL = ChosenModel("m1", Architecture({"a": 4}, {}), 1.0, 0.9, 0.1, 100, "models/m1.safetensors")


def test_records_read_what_they_wrote(tmp_path: Path) -> None:
    FRONT.write(tmp_path / "front.json")
    assert Front.read(tmp_path / "front.json") == FRONT
    ChosenModel.write_all(tmp_path / "index.json", [MODEL])
    assert ChosenModel.read_all(tmp_path / "index.json") == [MODEL]
    write_exports(tmp_path / "exports.json", {"m1": {"jcw": "models/m1.jcw"}})
    assert read_exports(tmp_path / "exports.json") == {"m1": {"jcw": "models/m1.jcw"}}


@pytest.mark.parametrize("files", [None, ["m1.jcw"], {"jcw": 3}, {"jcw": ""}])
def test_exports_of_another_shape_name_the_model(tmp_path: Path, files: object) -> None:
    path = tmp_path / "exports.json"
    write_json(path, {"format": "jcw-exports/1", "models": {"m1": files}})
    with pytest.raises(FormatError, match=r"exports\.json: models\['m1'\] is"):
        read_exports(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", ""), ("id", 3), ("weights", None), ("kept_weights", 1.5), ("kept_weights", True), ("kept_weights", -1),
        ("requested_latency_ms", "fast"), ("requested_latency_ms", float("nan")), ("search_error", [0.1]),
        ("predicted_latency_ms", -1.0), ("predicted_latency_ms", float("inf")), ("architecture", {"widths": 3}),
    ],
)  # fmt: skip
def test_bad_values_of_models_are_named(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "index.json"
    ChosenModel.write_all(path, [MODEL, replace(MODEL, id="m2")])
    document = json.loads(path.read_text())
    document["models"][1][key] = value
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=rf"index\.json: models\[1\]\.{key}"):
        ChosenModel.read_all(path)


def test_models_that_share_a_name_or_lack_a_key(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    ChosenModel.write_all(path, [MODEL, MODEL])
    with pytest.raises(FormatError, match=r"index\.json: two models have the id 'm1'"):
        ChosenModel.read_all(path)
    document = json.loads(path.read_text())
    for rows, message in (
        (None, "models is None"),
        ([7], r"models\[0\]: found 7"),
        ([{}], r".*expected the keys"),
    ):
        write_json(path, {**document, "models": rows})
        with pytest.raises(FormatError, match=rf"index\.json: {message}"):
            ChosenModel.read_all(path)


_values = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
)


@given(st.data())
def test_damaged_records_are_one_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("records") / "record.json"
    kind = data.draw(st.sampled_from(["front", "models"]))
    FRONT.write(path) if kind == "front" else ChosenModel.write_all(path, [MODEL])
    document = json.loads(path.read_text())
    parent, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(parent[key], (dict, list)) and parent[key] and data.draw(st.booleans()):
        parent = parent[key]
        key = data.draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
    if data.draw(st.booleans()):
        parent[key] = data.draw(_values)
    else:
        del parent[key]
    path.write_text(json.dumps(document))
    try:
        (Front.read if kind == "front" else ChosenModel.read_all)(path)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017

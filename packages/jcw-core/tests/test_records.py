"""Fronts and chosen models: read as they were written, and damaged ones are one error."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from damage import misplace
from hypothesis import given
from hypothesis import strategies as st

from jcw_core.errors import FormatError
from jcw_core.files import write_json
from jcw_core.network.architecture import Architecture
from jcw_core.run.records import (
    Candidate,
    ChosenModel,
    Front,
    is_amount,
    is_finite,
    read_exports,
    write_exports,
)

FRONT = Front(
    "net",
    {"latency": "ms", "error": ""},
    [
        Candidate(Architecture({"a": 4}, {"l": 0.5}), {"latency": 1.5, "error": 0.25}),
        Candidate(
            Architecture({"a": 8}, {}), {"latency": 2.5, "error": 0.2}, {"latency": 2.5, "error": 0.15}
        ),
    ],
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
        ("id", ""), ("id", 3), ("weights", None), ("kept_weights", 1.5), ("kept_weights", True), ("kept_weights", -1), ("kept_weights", 10**400), ("weights", "m\0"),
        ("requested_latency_ms", 10**400),
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


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("network",), 3), (("network",), ""), (("models", 0, "objectives", "latency"), 10**400),
        (("models", 0, "objectives", "latency"), float("nan")), (("models", 0, "objectives", "latency"), "1.5"),
        (("models", 0, "objectives", "latency"), True), (("models", 0, "objectives"), [1.5]),
    ],
)  # fmt: skip
def test_fronts_hold_numbers(tmp_path: Path, place: tuple[Any, ...], value: object) -> None:
    path = tmp_path / "front.json"
    FRONT.write(path)
    where = document = json.loads(path.read_text())
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"front\.json: not a front"):
        Front.read(path)


@given(st.data())
def test_damaged_records_are_one_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("records") / "record.json"
    kind = data.draw(st.sampled_from(["front", "models"]))
    FRONT.write(path) if kind == "front" else ChosenModel.write_all(path, [MODEL])
    document = json.loads(path.read_text())
    misplace(data, document)
    path.write_text(json.dumps(document))
    try:
        found = (Front.read if kind == "front" else ChosenModel.read_all)(path)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        for candidate in found.candidates if isinstance(found, Front) else ():
            assert all(map(math.isfinite, candidate.objectives.values()))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400), True, None, "1", [1]])
def test_what_no_float_holds(value: object) -> None:
    assert not is_finite(value)
    assert is_amount(value) == (value is None)


@pytest.mark.parametrize("value", [0, 1.5, 10**300])
def test_amounts(value: float) -> None:
    assert is_finite(value)
    assert is_finite(-value)
    assert is_amount(value)
    assert is_amount(-value) == (value == 0)

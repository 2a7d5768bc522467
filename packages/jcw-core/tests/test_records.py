"""What stages hand to each other: read as it was written, and damaged files are one error."""

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
from jcw_core.protocols import DeviceInfo
from jcw_core.run.records import (
    BASELINE,
    Candidate,
    ChosenModel,
    Evaluation,
    Front,
    Measurements,
    ModelScore,
    ModelTimes,
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
MEASUREMENTS = Measurements(
    DeviceInfo("host", "a processor", "avx2", 2, {"engine": "1.0"}),
    {"baseline": ModelTimes(2.0, 1.5, 2.5, 20), "m1": None},
    {"mape": 0.1, "points": []},
)
EVALUATION = Evaluation({"baseline": ModelScore(0.25, 80), "m1": ModelScore(0.5, 80)})


ROW = {
    "id": "m1", "architecture": MODEL.architecture.to_dict(), "requested_latency_ms": 1.0, "predicted_latency_ms": 0.9,
    "search_error": 0.1, "kept_weights": 100, "weights": "models/m1.safetensors",
}  # fmt: skip


def test_records_read_what_they_wrote(tmp_path: Path) -> None:
    FRONT.write(tmp_path / "front.json")
    assert Front.read(tmp_path / "front.json") == FRONT
    beside = replace(FRONT, uniform={"both": FRONT.candidates[:1]})
    beside.write(tmp_path / "front.json")
    assert Front.read(tmp_path / "front.json") == beside
    ChosenModel.write_all(tmp_path / "index.json", [MODEL])
    assert ChosenModel.read_all(tmp_path / "index.json") == [MODEL]
    MEASUREMENTS.write(tmp_path / "measurements.json")
    assert Measurements.read(tmp_path / "measurements.json") == MEASUREMENTS
    with_layers = replace(MEASUREMENTS, layers_ms={"m1": {"conv": 0.5}, "baseline": {}})
    with_layers.write(tmp_path / "measurements.json")
    assert Measurements.read(tmp_path / "measurements.json") == with_layers
    EVALUATION.write(tmp_path / "evaluation.json")
    assert Evaluation.read(tmp_path / "evaluation.json") == EVALUATION
    without_classes = Evaluation({"m1": ModelScore(None, 80, 0.25)})
    without_classes.write(tmp_path / "evaluation.json")
    assert Evaluation.read(tmp_path / "evaluation.json") == without_classes
    write_exports(tmp_path / "exports.json", {"m1": {"jcw": "models/m1.jcw"}})
    assert read_exports(tmp_path / "exports.json") == {"m1": {"jcw": "models/m1.jcw"}}


def test_measurements_and_evaluation_keep_their_keys(tmp_path: Path) -> None:
    """Other programs read these files by key."""
    MEASUREMENTS.write(tmp_path / "measurements.json")
    assert (tmp_path / "measurements.json").read_text() == (
        '{\n  "format": "jcw-measurements/1",\n  "device": {\n    "name": "host",\n    "cpu": "a processor",\n'
        '    "isa": "avx2",\n    "threads": 2,\n    "versions": {\n      "engine": "1.0"\n    }\n  },\n'
        '  "models": {\n    "baseline": {\n      "median_ms": 2.0,\n      "min_ms": 1.5,\n      "max_ms": 2.5,\n'
        '      "rounds": 20\n    },\n    "m1": null\n  },\n  "fidelity": {\n    "mape": 0.1,\n    "points": []\n  }\n}\n'
    )
    Evaluation({"m1": ModelScore(0.5, 80)}).write(tmp_path / "evaluation.json")
    assert (tmp_path / "evaluation.json").read_text() == (
        '{\n  "format": "jcw-evaluation/1",\n  "models": {\n    "m1": {\n      "test_error": 0.5,\n      "images": 80\n'
        "    }\n  }\n}\n"
    )


@pytest.mark.parametrize("layers", [None, 3, {"m1": [0.5]}, {"m1": {"conv": None}}, {"m1": {"conv": -1}}])
def test_layer_times_of_another_shape_are_refused(tmp_path: Path, layers: object) -> None:
    path = tmp_path / "measurements.json"
    MEASUREMENTS.write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "layers_ms": layers}))
    with pytest.raises(
        FormatError, match=r"layers_ms is .*, expected milliseconds by model and layer; run again"
    ):
        Measurements.read(path)


@pytest.mark.parametrize("files", [None, ["m1.jcw"], {"jcw": 3}, {"jcw": ""}])
def test_exports_of_another_shape_name_the_model(tmp_path: Path, files: object) -> None:
    path = tmp_path / "exports.json"
    write_json(path, {"format": "jcw-exports/1", "models": {"m1": files}})
    with pytest.raises(FormatError, match=r"exports\.json: models\['m1'\] is"):
        read_exports(path)


def test_models_stand_in_the_order_in_which_reports_tell_of_them(tmp_path: Path) -> None:
    """They are trained in another one, the slowest first."""
    made = [
        replace(MODEL, id=name, predicted_latency_ms=ms)
        for name, ms in (("slow", 3.0), ("fast", 1.0), (BASELINE, 5.0), ("untimed", None))
    ]
    ChosenModel.write_all(tmp_path / "index.json", made)
    found = [model.id for model in ChosenModel.read_all(tmp_path / "index.json")]
    assert found == [BASELINE, "untimed", "fast", "slow"]


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


CLIMBING = ["../x", "a/../../x", "/etc/x", "..", ".", "a//b", "a\\..\\b", ".state/x", "x/", "a\x1b", "\udcff"]


@pytest.mark.parametrize("name", [*CLIMBING, "a/b"])
def test_an_id_names_a_folder_of_the_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / "index.json"
    write_json(path, {"format": "jcw-models/1", "models": [{**ROW, "id": name}]})
    with pytest.raises(
        FormatError, match=r"index\.json: models\[0\]\.id is .* expected a name without slashes"
    ):
        ChosenModel.read_all(path)
    path = tmp_path / "exports.json"
    write_exports(path, {name: {"jcw": "models/m1.jcw"}})
    with pytest.raises(FormatError, match=r"exports\.json: models has .* expected a name without slashes"):
        read_exports(path)


@pytest.mark.parametrize("name", CLIMBING)
def test_files_lie_in_the_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / "index.json"
    write_json(path, {"format": "jcw-models/1", "models": [{**ROW, "weights": name}]})
    with pytest.raises(FormatError, match=r"models\[0\]\.weights is .* expected a path inside the run"):
        ChosenModel.read_all(path)
    path = tmp_path / "exports.json"
    write_exports(path, {"m1": {"jcw": name}})
    with pytest.raises(FormatError, match=r"models\['m1'\] is .* expected a path inside the run"):
        read_exports(path)


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
        (("uniform",), []), (("uniform",), {"both": [3]}), (("uniform",), {"both": 3}),
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


FILES = [
    (FRONT.write, Front.read),
    (lambda path: ChosenModel.write_all(path, [MODEL]), ChosenModel.read_all),
    (MEASUREMENTS.write, Measurements.read),
    (EVALUATION.write, Evaluation.read),
]


@given(st.data())
def test_damaged_records_are_one_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("records") / "record.json"
    write, read = data.draw(st.sampled_from(FILES))
    write(path)
    document = json.loads(path.read_text())
    misplace(data, document)
    path.write_text(json.dumps(document))
    try:
        found: Any = read(path)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        for candidate in found.candidates if isinstance(found, Front) else ():
            assert all(map(math.isfinite, candidate.objectives.values()))
        if isinstance(found, Measurements):
            assert all(is_amount(times.median_ms) for times in found.models.values() if times is not None)
        if isinstance(found, Evaluation):
            assert all(is_amount(score.test_error) for score in found.models.values())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400), True, None, "1", [1]])
def test_values_that_are_no_finite_number(value: object) -> None:
    assert not is_finite(value)
    assert is_amount(value) == (value is None)


@pytest.mark.parametrize("value", [0, 1.5, 10**300])
def test_numbers_from_0_are_amounts(value: float) -> None:
    assert is_finite(value)
    assert is_finite(-value)
    assert is_amount(value)
    assert is_amount(-value) == (value == 0)

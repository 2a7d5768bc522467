"""The stages ``profile`` and ``measure``, the objective ``latency`` and the report section, through the registry."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from damage import misplace
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_samples import CORNERS, Plugin, assert_same_times, is_corner

from jcw_core.cli.commands import run as run_command
from jcw_core.errors import FormatError
from jcw_core.files import read_json
from jcw_core.hookspecs import hookimpl
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable
from jcw_latency.commands.arguments import space_of
from jcw_latency.devices.recorded import RecordedPlugin
from jcw_latency.fidelity.check import Fidelity, Point
from jcw_latency.profiling.network_timing import random_model
from jcw_latency.stages import _again


@dataclass(frozen=True)
class NoOptions:
    pass


class Pixels:
    """Enough of a dataset for a network to fit: eight by eight pixels, three classes."""

    name, options = "pixels", NoOptions
    classes, mean, std = ("a", "b", "c"), (0.5,) * 3, (0.5,) * 3
    image_shape, labels = (3, 8, 8), np.arange(60) % 3

    def open(self, split: str, options: NoOptions) -> Pixels:
        return self

    def __len__(self) -> int:
        return 60

    def images(self, indices: np.ndarray) -> np.ndarray:
        return np.zeros((len(indices), *self.image_shape), np.uint8)

    @hookimpl
    def jcw_register_datasets(self) -> list[Pixels]:
        return [self]


LATENCY = "latency = { widths = 4, densities = 5, min_rounds = 2, check_networks = 12, check_rounds = 3 }"


@pytest.fixture
def registry() -> Registry:
    return Registry({"synthetic": Plugin(), "pixels": Pixels()})


@pytest.fixture
def context(registry: Registry, network: Network, tmp_path: Path) -> Context:
    return context_of(registry, network, tmp_path, SPACES[0])


def context_of(
    registry: Registry, network: Network, tmp_path: Path, space: str, latency: str = LATENCY
) -> Context:
    (tmp_path / "net.json").write_text(network.to_json())
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f"""
        data = {{ name = "pixels", holdout = 20 }}
        device = {{ name = "synthetic" }}
        {latency}
        """
        + space
    )
    (tmp_path / "run").mkdir()
    return Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run"))


def test_profile_stage(context: Context, table: LatencyTable) -> None:
    events = []
    context.registry.progress = events.append  # type: ignore[method-assign]
    context.registry.stages["profile"].run(context)
    read = LatencyTable.load(context.path(records.TABLE))
    assert_same_times(read, table)
    counted = [event for event in events if event.total]
    assert counted[-1].done == counted[-1].total
    # The verdict is a message, which stays in view.
    assert (events[-1].total, events[-1].detail[:19]) == (0, "latency table good:")


def test_profile_stage_tells_what_it_goes_on_from(context: Context) -> None:
    stage, details = context.registry.stages["profile"], []
    stage.run(context)
    context.registry.progress = lambda event: details.append(event.detail)  # type: ignore[method-assign]
    stage.run(context)
    assert "goes on from" in details[0]


@pytest.mark.parametrize("place", ["runs/recipe", "compressed/recipe", "a folder/recipe", "recipe"])
def test_the_command_that_profiles_again_is_about_this_run(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    again = _again(Context(context.recipe, context.registry, RunDirectory(Path(place))))
    words = shlex.split(f"{again}rounds=24")
    assert words[:2] == ["jcw", "run"]
    asked = run_command.make_context("run", words[2:]).params
    assert asked["runs"] / asked["recipe"].stem == Path(place)
    assert asked["overrides"] == ("latency.rounds=24",)


SPACES = (
    'network = { file = "net.json" }',
    'network = { file = "net.json" }\n[[space.bounds]]\nlayers = "*"\nwidth = 0.75\ndensity = 0.5',
    'network = { file = "net.json" }\n[[space.bounds]]\nlayers = "block.conv1"\nwidth = 0.25\ndensity = 0.02',
    'network = { backbone = "resnet18", width = 0.0625 }',
)


@pytest.mark.parametrize("space", SPACES)
def test_profile_stage_runs_networks_of_the_runs_space(
    registry: Registry, network: Network, tmp_path: Path, space: str, exported: list[Architecture]
) -> None:
    context = context_of(registry, network, tmp_path, space)
    context.registry.stages["profile"].run(context)
    assert all(any(is_corner(context.space, a, *corner) for a in exported) for corner in CORNERS)
    stages = context.registry.stages
    assert "space" in (*stages["profile"].reads, stages["profile"].section)
    if "bounds" not in space:
        # As the command does.
        assert space_of(registry, context.network) == context.space


def export_models(context: Context, *names: str) -> None:
    rng = np.random.default_rng(0)
    exporter = context.registry.exporters["text"]
    for name in names:
        exporter.export(random_model(context.network, Architecture({}, {}), rng), context.path(f"{name}.txt"))
    records.write_exports(context.path(records.EXPORTS), {name: {"text": f"{name}.txt"} for name in names})


def test_measure_stage(context: Context, exported: list[Architecture]) -> None:
    context.registry.stages["profile"].run(context)
    export_models(context, "m1", records.BASELINE)
    stage = context.registry.stages["measure"]
    exported.clear()
    assert set(stage.needs(context)) == {records.EXPORTS, records.TABLE}
    stage.run(context)
    document = read_json(context.path(records.MEASUREMENTS), kind="jcw-measurements/1")
    assert document["fidelity"]["verdict"]["level"] == "good"
    assert all(any(is_corner(context.space, a, *corner) for a in exported) for corner in CORNERS)
    assert set(document["models"]) == {"m1", records.BASELINE}
    whole = LatencyPredictor(LatencyTable.load(context.path(records.TABLE)), context.space).predict(
        context.space.maximum[None]
    )[0]
    row = document["models"][records.BASELINE]
    assert row["rounds"] == 3
    # What is left comes from densities that small layers of the fitted networks round.
    assert row["min_ms"] == row["median_ms"] == row["max_ms"] == pytest.approx(whole, rel=5e-3)
    assert document["device"]["cpu"] == "formula"
    assert document["fidelity"]["networks"] == 12
    section = context.registry.report_sections["fidelity"]
    assert section.data(context) == document["fidelity"]


MEASURED = {
    "format": "jcw-measurements/1",
    "device": {"name": "synthetic", "cpu": "formula", "isa": "none", "threads": 1, "versions": {}},
    "models": {},
}
FIDELITY = Fidelity((Point(1.0, 1.25, 100), Point(2.0, 1.75, 200)), "networks", 0.1).to_dict()


def test_report_section_of_measurements(context: Context) -> None:
    document = MEASURED | {"fidelity": FIDELITY}
    context.path(records.MEASUREMENTS).write_text(json.dumps(document))
    section = context.registry.report_sections["fidelity"]
    page = section.html(section.data(context) or {})
    assert page.count("<circle") == 4
    assert "off by 17.1% on average" in page


@settings(max_examples=100)
@given(data=st.data())
def test_report_section_of_damaged_measurements(context: Context, data: st.DataObject) -> None:
    """One error that names the file, or something to draw."""
    document = json.loads(json.dumps(MEASURED | {"fidelity": FIDELITY}))
    misplace(data, document)
    context.path(records.MEASUREMENTS).write_text(json.dumps(document))
    section = context.registry.report_sections["fidelity"]
    try:
        found = section.data(context)
    except FormatError as error:
        assert "measurements.json" in str(error)  # noqa: PT017
    else:
        assert found is None or section.html(found).startswith("<p>")


@pytest.mark.parametrize(
    "change",
    [
        {"mape": None},
        {"mape": 10**400},
        {"bias": "x"},
        {"points": {}},
        {"points": [3]},
        {"points": [{}]},
        {"slowdown": []},
    ],
)
def test_report_section_refuses_anything_but_a_check(context: Context, change: dict[str, object]) -> None:
    for found in (FIDELITY | change, [1], 3, "x", {}):
        document = MEASURED | {"fidelity": found}
        context.path(records.MEASUREMENTS).write_text(json.dumps(document))
        with pytest.raises(FormatError, match=r"measurements\.json: fidelity is .*, which is no check"):
            context.registry.report_sections["fidelity"].data(context)


def test_measure_stage_on_a_recorded_table(context: Context, table_file: Path) -> None:
    context.registry.stages["profile"].run(context)
    export_models(context, "m1")
    object.__setattr__(context.recipe.device, "name", "recorded")
    object.__setattr__(context.recipe.device, "options", RecordedPlugin.options(table_file))
    context.registry.stages["measure"].run(context)
    document = read_json(context.path(records.MEASUREMENTS))
    assert document["models"] == {"m1": None}
    assert document["fidelity"] is None
    assert context.registry.report_sections["fidelity"].data(context) is None


def test_measure_stage_needs_the_devices_format(context: Context) -> None:
    context.registry.stages["profile"].run(context)
    records.write_exports(context.path(records.EXPORTS), {"m1": {"other": "m1.bin"}})
    with pytest.raises(FormatError, match=r"'text'.*export\.formats"):
        context.registry.stages["measure"].run(context)


def test_objective(context: Context) -> None:
    context.registry.stages["profile"].run(context)
    objective = context.registry.objectives["latency"]
    assert (objective.unit, objective.needs) == ("ms", (records.TABLE,))
    evaluator = objective.open(context)
    population = context.space.sample(50, np.random.default_rng(0))
    assert evaluator.begin_generation(population, 0) is False
    predictor = LatencyPredictor(LatencyTable.load(context.path(records.TABLE)), context.space)
    np.testing.assert_array_equal(
        evaluator.evaluate(context.space, population), predictor.predict(population)
    )
    other = SearchSpace.of(context.network, step=8)
    assert evaluator.evaluate(other, other.sample(50, np.random.default_rng(0))).shape == (50,)


def test_importing_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import jcw_latency, jcw_latency.commands.profile, jcw_latency.commands.check, jcw_latency.fidelity.figure\n"
        "import jcw_latency.stages, jcw_latency.fidelity.report_section, jcw_latency.devices.recorded\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'jcw_kernels', 'jcw_search', 'jcw_retrain', 'scipy', 'pandas', 'matplotlib'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

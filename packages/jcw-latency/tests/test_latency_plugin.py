"""Stages, objective, recorded device and commands, through the registry."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from latency_samples import Plugin, SyntheticDevice, seconds_of

from jcw_core import records
from jcw_core.architecture import Architecture
from jcw_core.cli import build
from jcw_core.context import Context
from jcw_core.errors import DeviceError, FormatError, JcwError
from jcw_core.files import read_json, write_json
from jcw_core.fusion import fuse
from jcw_core.hookspecs import hookimpl
from jcw_core.network import Network
from jcw_core.problem import LayerProblem
from jcw_core.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run_directory import RunDirectory
from jcw_core.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable
from jcw_latency.axes import at
from jcw_latency.guard import GuardedDevice
from jcw_latency.network_runs import NetworkRuns, random_model
from jcw_latency.plan import make_plan
from jcw_latency.recorded import RecordedDevice, RecordedPlugin


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


@pytest.fixture
def registry() -> Registry:
    return Registry({"synthetic": Plugin(), "pixels": Pixels()})


@pytest.fixture
def context(registry: Registry, network: Network, tmp_path: Path) -> Context:
    (tmp_path / "net.json").write_text(network.to_json())
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        """
        network = { file = "net.json" }
        data = { name = "pixels", holdout = 20 }
        device = { name = "synthetic" }
        latency = { widths = 4, densities = 5, min_rounds = 2, check_networks = 12, check_rounds = 3 }
        """
    )
    (tmp_path / "run").mkdir()
    return Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run"))


def test_profile_stage(context: Context, table: LatencyTable) -> None:
    events = []
    context.registry.progress = events.append  # type: ignore[method-assign]
    context.registry.stages["profile"].run(context)
    read = LatencyTable.read(context.path(records.TABLE))
    for one, other in zip(read.grids, table.grids, strict=True):
        np.testing.assert_array_equal(one.ms, other.ms)
    assert events[-1].done == events[-1].total > 0


def export_models(context: Context, *names: str) -> None:
    rng = np.random.default_rng(0)
    exporter = context.registry.exporters["text"]
    for name in names:
        exporter.export(random_model(context.network, Architecture({}, {}), rng), context.path(f"{name}.txt"))
    write_json(
        context.path(records.EXPORTS),
        {"format": "jcw-exports/1", "models": {name: {"text": f"{name}.txt"} for name in names}},
    )


def test_measure_stage(context: Context) -> None:
    context.registry.stages["profile"].run(context)
    export_models(context, "m1", records.BASELINE)
    stage = context.registry.stages["measure"]
    assert set(stage.needs(context.recipe, context.registry)) == {records.EXPORTS, records.TABLE}
    stage.run(context)
    document = read_json(context.path(records.MEASUREMENTS), kind="jcw-measurements/1")
    assert set(document["models"]) == {"m1", records.BASELINE}
    whole = LatencyPredictor(LatencyTable.read(context.path(records.TABLE)), context.space).predict(
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
    write_json(
        context.path(records.EXPORTS), {"format": "jcw-exports/1", "models": {"m1": {"other": "m1.bin"}}}
    )
    with pytest.raises(FormatError, match=r"'text'.*export\.formats"):
        context.registry.stages["measure"].run(context)


def test_objective(context: Context) -> None:
    context.registry.stages["profile"].run(context)
    objective = context.registry.objectives["latency"]
    assert (objective.unit, objective.needs) == ("ms", (records.TABLE,))
    evaluator = objective.open(context)
    population = context.space.sample(50, np.random.default_rng(0))
    assert evaluator.begin_generation(population, 0) is False
    predictor = LatencyPredictor(LatencyTable.read(context.path(records.TABLE)), context.space)
    np.testing.assert_array_equal(
        evaluator.evaluate(context.space, population), predictor.predict(population)
    )
    frozen = context.space.restrict("density")
    assert evaluator.evaluate(frozen, population).shape == (50,)


def test_recorded_device_answers_what_was_measured(network: Network, table: LatencyTable) -> None:
    device, plan = RecordedDevice(table, Path("table.npz")), make_plan(network, widths=4, densities=5, step=4)
    times = device.measure(plan.problems, rounds=3)
    assert times.shape == (3, len(plan.problems))
    np.testing.assert_allclose(times, SyntheticDevice().measure(plan.problems, rounds=3), rtol=1e-12)
    assert device.describe().cpu == "formula"


def test_recorded_device_tells_second_convolutions_apart(table: LatencyTable) -> None:
    device = RecordedDevice(table, Path("table.npz"))
    pair = next(grid.problem for grid in table.grids if grid.problem.then is not None)
    narrow = at(pair, {"in": 6, "out": 5, "density": 0.0})
    assert narrow.then is not None
    assert (narrow.then.in_channels, narrow.then.groups) == (5, 5)
    assert device.measure([narrow], rounds=1)[0, 0] == pytest.approx(seconds_of(narrow), rel=1e-12)
    for then in (replace(narrow.then, activation="relu"), replace(narrow.then, stride=(2, 2))):
        with pytest.raises(DeviceError, match="it has no layer"):
            device.measure([replace(narrow, then=then)], rounds=1)
    # Another layer of the network has its first one's shape.
    alone = replace(narrow, then=None)
    assert device.measure([alone], rounds=1)[0, 0] == pytest.approx(seconds_of(alone), rel=1e-12)


def test_networks_of_one_channel_are_recorded_layers(network: Network, table: LatencyTable) -> None:
    """Cut to one channel, a depthwise convolution looks like any other, but is timed as what it was."""
    guarded = GuardedDevice(RecordedDevice(table, Path("table.npz")), 60.0)
    runs = NetworkRuns(
        network,
        [Architecture({"branch": 1, "stem": 1}, {})],
        guarded,
        None,
        rounds=1,
        rng=np.random.default_rng(0),
        folder=Path(),
    )
    predictor = LatencyPredictor(table, SearchSpace.of(network, step=1))
    expected = sum(predictor.breakdown(runs.chosen[0]).values())
    assert runs.finish()[0] == pytest.approx(expected, rel=1e-9)


def test_recorded_device_says_what_it_lacks(table: LatencyTable, tmp_path: Path) -> None:
    device = RecordedDevice(table, Path("table.npz"))
    with pytest.raises(DeviceError, match=r"table.npz: made for small; it has no layer"):
        device.measure([LayerProblem("conv2d", 3, 99, 99, 16, (3, 3))], rounds=1)
    with pytest.raises(DeviceError, match="cannot run models"):
        device.measure_models([tmp_path], rounds=1)


def jcw(registry: Registry, *arguments: object) -> str:
    result = CliRunner().invoke(build(registry), [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_profile_predict_check(
    registry: Registry, network: Network, table: LatencyTable, tmp_path: Path
) -> None:
    (tmp_path / "net.json").write_text(network.to_json())
    made = tmp_path / "made.npz"
    jcw(registry, "profile", tmp_path / "net.json", "--device", "synthetic", "-o", made,
        "--set", "widths=4", "--set", "densities=5")  # fmt: skip
    assert not list(tmp_path.glob("*.partial"))
    np.testing.assert_array_equal(LatencyTable.read(made).grids[2].ms, table.grids[2].ms)

    again = tmp_path / "again.npz"
    jcw(registry, "profile", tmp_path / "net.json", "--device", "recorded", "--option", f"table={made}", "-o", again,
        "--set", "widths=4", "--set", "densities=5")  # fmt: skip
    np.testing.assert_allclose(LatencyTable.read(again).grids[2].ms, table.grids[2].ms, rtol=1e-12)

    space = SearchSpace.of(network)
    population = space.sample(3, np.random.default_rng(0))
    expected = LatencyPredictor(table, space).predict(population)
    members = [space.architecture(row) for row in population]
    write_json(tmp_path / "one.json", members[0].to_dict())
    candidates = [records.Candidate(m, {"latency": 1.0}) for m in members]
    records.Front("small", {"latency": "ms"}, candidates).write(tmp_path / "front.json")
    rows = json.loads(
        jcw(registry, "predict", made, tmp_path / "one.json", tmp_path / "front.json", "--json")
    )
    assert [r["latency_ms"] for r in rows] == pytest.approx([expected[0], *expected], rel=0.02)
    printed = jcw(registry, "predict", made, tmp_path / "one.json", "--layers")
    assert all(unit.name in printed for unit in fuse(network))

    # Before click 8.2 its runner hands over progress, which goes to stderr, with the output.
    found = json.loads(jcw(registry, "check", made, "--networks", 5, "--json").strip().splitlines()[-1])
    assert found["networks"] == 5
    assert found["mape"] < 0.01
    plain = jcw(registry, "check", again, "--networks", 5, "--option", f"table={made}")
    assert "layer by layer" in plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "resnet18", "--device", "nowhere"], "unknown device 'nowhere'"),
        (["profile", "lenet", "--device", "synthetic"], "unknown backbone 'lenet'"),
        (["profile", "none.json", "--device", "synthetic"], r"none\.json: .*No such file"),
        (["profile", "resnet18", "--device", "synthetic", "--option", "noise"], "KEY=VALUE"),
        (["profile", "resnet18", "--device", "synthetic", "--option", "noise=-1"], "noise: -1.* impossible"),
        (["profile", "resnet18", "--device", "synthetic", "--set", "width=3"], "did you mean 'widths'"),
        (["profile", "resnet18", "--device", "recorded"], "table: is missing"),
        (["predict", "none.npz", "a.json"], r"none\.npz: no such file"),
        (["predict", "table.npz", "a.json"], r"a\.json: no such file"),
        (["predict", "table.npz", "bad.json"], r"bad\.json: an architecture is"),
        (["predict", "table.npz", "wide.json"], "width of 'stem' is 400"),
        (["predict", "table.npz", "good.json", "--network", "other"], "no network 'other'"),
        (["check", "table.npz", "--device", "host2"], "unknown device 'host2'"),
    ],
)
def test_bad_input(
    registry: Registry,
    table_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(table_file.parent)
    write_json(Path("bad.json"), {"widths": 3})
    write_json(Path("good.json"), {"widths": {}, "densities": {}})
    write_json(Path("wide.json"), {"widths": {"stem": 400}, "densities": {}})
    before = table_file.read_bytes()
    with pytest.raises(JcwError, match=message) as caught:
        CliRunner().invoke(build(registry), [*arguments], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    assert table_file.read_bytes() == before


def test_an_engine_that_changed_is_refused(registry: Registry, table_file: Path, tmp_path: Path) -> None:
    table = LatencyTable.read(table_file)
    device: Any = table.device
    object.__setattr__(device, "versions", {"formula": "0"})
    table.write(table_file)
    with pytest.raises(DeviceError, match="profile again"):
        jcw(registry, "check", table_file, "--networks", 2)


def test_importing_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import jcw_latency, jcw_latency.commands, jcw_latency.check_command, jcw_latency.figure\n"
        "import jcw_latency.stages, jcw_latency.report, jcw_latency.recorded\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'jcw_kernels', 'jcw_search', 'jcw_retrain', 'scipy', 'pandas', 'matplotlib'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

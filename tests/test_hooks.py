"""docs/hooks.md: every hook stands there with its exact signature, and every example works."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from jcw_core import hookspecs, protocols
from jcw_core.cli.main import build
from jcw_core.errors import DeviceError
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.protocols import Progress
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory
from jcw_core.run.pipeline import run
from jcw_core.space.space import SearchSpace

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
SPECS = {
    node.name: node
    for node in ast.parse(Path(hookspecs.__file__).read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef)
    and any(ast.unparse(d).startswith("hookspec") for d in node.decorator_list)
}
FAMILIES = {
    "jcw_register_backbones": ("backbones", "Backbone"),
    "jcw_register_devices": ("devices", "DevicePlugin"),
    "jcw_register_objectives": ("objectives", "Objective"),
    "jcw_register_selections": ("selections", "Selection"),
    "jcw_register_importances": ("importances", "Importance"),
    "jcw_register_datasets": ("datasets", "DatasetPlugin"),
    "jcw_register_exporters": ("exporters", "Exporter"),
    "jcw_register_stages": ("stages", "Stage"),
    "jcw_register_report": ("report_sections", "ReportSection"),
}


def example(hook: str) -> ModuleType:
    """The plugin module that the page shows for a hook."""
    (code,) = re.findall(r"```python\n(.*?)```", SECTIONS[hook], re.DOTALL)
    module = sys.modules[f"example_{hook}"] = ModuleType(f"example_{hook}")
    exec(compile(code, f"docs/hooks.md ({hook})", "exec"), vars(module))
    return module


@pytest.fixture(scope="module")
def registry() -> Registry:
    """A registry of the examples alone."""
    registry = Registry({hook: example(hook) for hook in SPECS}, installed=False)
    assert registry.failures == {}
    return registry


@pytest.fixture
def context(registry: Registry, tmp_path: Path) -> Context:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[network]\nbackbone = "plain"\n[data]\nname = "stripes"\nholdout = 50\n')
    return Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run"))


def test_the_page_has_every_hook_in_order() -> None:
    assert list(SECTIONS) == list(SPECS)


@pytest.mark.parametrize("hook", SPECS)
def test_the_signature_is_exact(hook: str) -> None:
    node = SPECS[hook]
    assert node.returns is not None
    signature = f"{hook}({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
    assert f"```text\n{signature}\n```" in SECTIONS[hook]


@pytest.mark.parametrize("hook", SPECS)
def test_every_spec_says_when_it_is_called(hook: str) -> None:
    assert "Called " in (ast.get_docstring(SPECS[hook]) or "")
    assert "Called " in SECTIONS[hook]


@pytest.mark.parametrize("hook", SPECS)
def test_every_hook_is_implemented_in_a_test(hook: str) -> None:
    tests = [*ROOT.glob("packages/*/tests/**/*.py"), *ROOT.glob("tests/plugins/*/*.py")]
    assert any(hook in path.read_text(encoding="utf-8") for path in tests)


@pytest.mark.parametrize("hook", FAMILIES)
def test_examples_have_all_members_of_their_protocol(registry: Registry, hook: str) -> None:
    family, protocol = FAMILIES[hook]
    members = {name for name in vars(getattr(protocols, protocol)) if not name.startswith("_")}
    (found,) = getattr(registry, family).values()
    assert "name" in members
    assert all(hasattr(found, name) for name in members)


def test_the_backbone(registry: Registry) -> None:
    plugin = registry.backbones["plain"]
    network = plugin.build(num_classes=5, input_size=32)
    assert network.num_classes == 5
    assert SearchSpace.of(network, defaults=plugin.bounds).dimensions == 6


def test_the_device(registry: Registry) -> None:
    plugin = registry.devices["calculator"]
    device = plugin.open(plugin.options(rate=1e6))
    network = registry.backbones["plain"].build(input_size=32)
    problems = [problem_of(network, unit) for unit in fuse(network)]
    seconds = device.measure(problems, rounds=3)
    assert seconds.shape == (3, len(problems))
    assert seconds[0].sum() == pytest.approx(len(problems) * 1e-6 + network.macs / 1e6)
    assert device.describe().name == "calculator"
    with pytest.raises(DeviceError, match="runs no models"):
        device.measure_models([], rounds=1)


def test_the_objective(registry: Registry, context: Context) -> None:
    evaluator = registry.objectives["channels"].open(context)
    population = np.stack([context.space.maximum, context.space.low])
    assert evaluator.begin_generation(population, 0) is False
    whole, least = evaluator.evaluate(context.space, population)
    assert whole == 32 + 64 + 128
    assert least < whole


def test_the_selection(registry: Registry) -> None:
    rng = np.random.default_rng(0)
    chosen = registry.selections["lottery"].select(
        rng.random((9, 2)), 4, rng, limits=np.array([[0, 0], [1, 1]])
    )
    assert len(set(chosen.tolist())) == 4


def test_the_importance(registry: Registry) -> None:
    torch = pytest.importorskip("torch")
    network = registry.backbones["plain"].build(num_classes=2, input_size=16)
    gram = torch.diag(torch.arange(32 * 9, dtype=torch.float32))
    found = registry.importances["energy"].measure(network, {}, {"conv2": gram}, [])
    np.testing.assert_array_equal(found["conv1"], np.arange(32 * 9).reshape(32, 9).sum(1))


def test_the_dataset(context: Context) -> None:
    assert isinstance(context.dataset("test"), protocols.Dataset)
    sizes = [len(context.dataset(split)) for split in ("training", "train", "validation", "reevaluation")]
    assert sizes == [200, 150, 25, 25]
    assert context.network.input_shape == (1, 16, 16)


def test_the_exporter(registry: Registry, tmp_path: Path) -> None:
    network = registry.backbones["plain"].build(num_classes=2, input_size=16, width=0.25)
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    exporter = registry.exporters["npz"]
    path = tmp_path / f"model{exporter.suffix}"
    exporter.export(
        Model(network, {name: np.ones(shape, np.float32) for name, shape in shapes.items()}), path
    )
    with np.load(path, allow_pickle=False) as arrays:
        assert {name: arrays[name].shape for name in arrays.files} == shapes


def test_the_stage(context: Context) -> None:
    run(context, "census")
    assert context.path("census.json").read_text().split() == [
        "{",
        '"images":',
        "150,",
        '"classes":',
        "2",
        "}",
    ]


def test_the_report_section(registry: Registry, context: Context) -> None:
    section = registry.report_sections["recipe"]
    data: Any = section.data(context)
    assert section.html(data) == "<p>recipe.toml, seed 0</p>"


def test_the_command(registry: Registry) -> None:
    done = CliRunner().invoke(build(registry), ["macs", "plain"])
    assert done.exit_code == 0
    assert done.output == f"{registry.backbones['plain'].build().macs:,}\n"


def test_the_translator(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    assert registry.join_ranks().size == 1
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == ("3", "1")


def test_the_listener(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    registry.progress(Progress("search", "generation", 3, 10))
    assert capsys.readouterr().err == "search: generation 3 of 10\n"

"""Packages that know only jcw_core, installed with pip where torch is not, are used by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGINS = sorted((ROOT / "tests" / "plugins").iterdir())
PACKAGES = [ROOT / "packages" / name for name in ("jcw-core", "jcw-latency", "jcw-search")]

RECIPE = f"""
[network]
backbone = "toynet"

[data]
name = "fashion_mnist"
path = "{ROOT / "examples" / "data" / "fashion_mnist"}"

[device]
name = "arithmetic"
gigamacs = 2

[latency]
widths = 2
densities = 2
min_rounds = 2
rounds = 2

[search]
population = 8
generations = 3
algorithm = "plain"
selection = "fastest"
objectives = ["latency", "pruned"]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of a fresh environment with jcw-core, jcw-latency, jcw-search and the plugins."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "hatchling>=1.18"], check=True)
    subprocess.run([*pip, "--no-build-isolation", *PACKAGES, *PLUGINS], check=True)
    return folder / "bin"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def jcw(installed: Path, workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Without PYTHONPATH, only what pip put there is found.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [installed / "jcw", *arguments], cwd=workspace, env=environment, capture_output=True, text=True
    )


def test_the_environment_has_no_torch(installed: Path) -> None:
    code = (
        "import importlib.util as u; print([u.find_spec(m) for m in ('torch', 'jcw_kernels', 'jcw_retrain')])"
    )
    done = subprocess.run(
        [installed / "python", "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[None, None, None]\n"


def test_plugins_are_listed_with_their_distributions(installed: Path, workspace: Path) -> None:
    done = jcw(installed, workspace, "plugins")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["toynet", "jcw-toy-backbone"] in lines
    assert ["arithmetic", "jcw-toy-device"] in lines
    assert ["fastest", "jcw-toy-selection"] in lines
    assert ["resnet18", "jcw-core"] in lines


def test_the_backbone_is_one_of_the_networks(installed: Path, workspace: Path) -> None:
    assert "toynet" in jcw(installed, workspace, "networks").stdout
    done = jcw(installed, workspace, "networks", "--json", "toynet", "--classes", "7")
    assert json.loads(done.stdout)["name"] == "toynet"


def test_the_keys_of_the_device_are_listed(installed: Path, workspace: Path) -> None:
    assert "gigamacs = 1.0" in jcw(installed, workspace, "recipe").stdout


def test_a_search_uses_all_three_by_name(installed: Path, workspace: Path) -> None:
    done = jcw(installed, workspace, "run", "recipe.toml", "--until", "search")
    assert done.returncode == 0, done.stderr
    front = json.loads((workspace / "runs" / "recipe" / "front.json").read_text())
    assert front["network"] == "toynet"
    assert front["search"]["strategy"] == "fastest"
    assert len(front["models"]) >= 2
    latencies = [model["objectives"]["latency"] for model in front["models"]]
    pruned = [model["objectives"]["pruned"] for model in front["models"]]
    assert latencies == sorted(latencies)
    assert pruned == sorted(pruned, reverse=True)


def test_the_commands_of_jcw_latency_use_the_plugins(installed: Path, workspace: Path) -> None:
    arguments = (
        "--device",
        "arithmetic",
        "--option",
        "gigamacs=4",
        "--input-size",
        "28",
        "--set",
        "widths=2",
    )
    done = jcw(installed, workspace, "profile", "toynet", *arguments)
    assert done.returncode == 0, done.stderr
    (workspace / "whole.json").write_text('{"widths": {}, "densities": {}}')
    done = jcw(installed, workspace, "predict", "table.npz", "whole.json", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    network = json.loads(
        jcw(installed, workspace, "networks", "--json", "toynet", "--input-size", "28").stdout
    )
    layers = sum(node["op"] in ("conv2d", "linear") for node in network["nodes"])
    assert row["latency_ms"] > layers * 1e-3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'name = "arithmetic"\ngigamacs = 2',
            'name = "host"',
            "unknown device 'host'; install jcw-kernels; there is: ",
        ),
        ("gigamacs = 2", "gigamac = 2", "unknown key; did you mean 'gigamacs'"),
        ("gigamacs = 2", 'gigamacs = "2"', "expected float, found '2'"),
        (
            '"toynet"',
            '"toynot"',
            "unknown backbone 'toynot'; there is: mobilenet_v1, mobilenet_v2, resnet18, resnet50, toynet",
        ),
        ('"fastest"', '"slowest"', "unknown selection strategy 'slowest'; there is: fastest, nsga2, uniform"),
        (
            '"pruned"',
            '"prune"',
            "unknown objective 'prune'; there is: bytes, distance, error, latency, loss, macs, pruned, weights",
        ),
    ],
)
def test_mistakes_are_one_line(installed: Path, workspace: Path, old: str, new: str, message: str) -> None:
    assert old in RECIPE
    (workspace / "recipe.toml").write_text(RECIPE.replace(old, new))
    done = jcw(installed, workspace, "run", "recipe.toml", "--until", "search")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (workspace / "runs" / "recipe" / "front.json").exists()

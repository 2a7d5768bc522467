"""``jcw --help``, commands that are not there, completion and ``jcw doctor``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

import jcw_core.plugin
from jcw_core import providers
from jcw_core.cli import doctor
from jcw_core.cli.completion import SHELLS
from jcw_core.cli.group import SECTIONS
from jcw_core.cli.main import build
from jcw_core.registry import Registry


@pytest.fixture(scope="module")
def group() -> click.Group:
    return build(Registry())


def invoke(group: click.Group, *arguments: str, **settings: object) -> Result:
    return CliRunner().invoke(group, arguments, prog_name="jcw", **settings)  # type: ignore[arg-type]


def test_help_lists_each_command_once_and_cuts_no_line(group: click.Group) -> None:
    text = invoke(group, "--help", terminal_width=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.partition("Commands")[2] + text.partition(next(iter(SECTIONS)))[2]
    for name in group.commands:
        assert sum(line.split()[:1] == [name] for line in text.splitlines()) == 1, name


def test_help_names_no_command_that_nobody_makes() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert len(listed) == len(set(listed))
    own = set(build(Registry({"core": jcw_core.plugin}, installed=False)).commands)
    assert set(listed) <= own | set(providers.COMMANDS)


def test_commands_of_plugins_come_last(group: click.Group) -> None:
    more = build(Registry())
    more.add_command(click.Command("aardvark", help="Of somebody else."))
    text = invoke(more, "--help").stdout
    assert "Other commands" not in invoke(group, "--help").stdout
    assert text.index("Other commands:") < text.index("aardvark") > text.index("completion")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("shwo", "did you mean 'show'?"),
        ("recipes", "did you mean 'recipe'?"),
        ("xyzzy", "jcw --help lists them"),
        ("supernet", "it is a stage of runs: jcw run RECIPE --until supernet"),
    ],
)
def test_an_unknown_command_gets_the_nearest(group: click.Group, typed: str, said: str) -> None:
    result = invoke(group, typed)
    assert result.exit_code == 2
    assert result.output.strip().endswith(f"No such command '{typed}'; {said}")


def test_a_command_of_a_package_that_is_missing_names_the_package() -> None:
    alone = build(Registry({"core": jcw_core.plugin}, installed=False))
    assert "No such command 'profile'; install jcw-latency" in invoke(alone, "profile").output


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete_commands_and_options(group: click.Group, shell: str) -> None:
    script = invoke(group, "completion", shell).stdout
    assert "_JCW_COMPLETE" in script
    if found := shutil.which(shell):
        subprocess.run([found, "-n"], input=script, text=True, check=True, capture_output=True)
    complete = ShellComplete(group, {}, "jcw", "_JCW_COMPLETE")
    assert "recipe" in [item.value for item in complete.get_completions([], "rec")]
    assert "--dry-run" in [item.value for item in complete.get_completions(["run"], "--d")]


def test_a_doctor_tells_what_is_there(group: click.Group) -> None:
    lines = invoke(group, "doctor", "--json").stdout.splitlines()
    found = {finding["name"]: finding for finding in map(json.loads, lines)}
    assert {"machine", "Python", "processors", "engine", "GPU", *doctor.PACKAGES, *doctor.PROGRAMS} <= set(
        found
    )
    assert int(found["processors"]["found"]) >= 1


def test_a_doctor_tells_what_is_missing_for_what_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(doctor, "PACKAGES", {"no-such-distribution": "nothing"})
    registry = Registry({"core": jcw_core.plugin}, installed=False)
    registry.failures["broken"] = "ImportError: no module"
    text = invoke(build(registry), "doctor").stdout
    assert (
        "- engine        missing, for running and timing models on this machine; pip install jcw-kernels"
        in text
    )
    assert "missing, for nothing; pip install 'no-such-distribution'" in text
    assert "- adb           missing, for Android phones; install Android's platform tools" in text
    assert (
        "- plugin broken missing, for whatever it registers; it fails to load: ImportError: no module" in text
    )


TORCH = """
class _Properties:
    def __init__(self, name, major, total_memory):
        self.name, self.major, self.total_memory = name, major, total_memory

class cuda:
    found = [_Properties(*properties) for properties in {gpus}]
    is_available = lambda: bool(cuda.found)
    device_count = lambda: len(cuda.found)
    get_device_properties = found.__getitem__
"""
LARGE, OLD = ("NVIDIA H200", 9, 140 << 30), ("GTX 1080", 6, 8 << 30)


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        (TORCH.format(gpus=[LARGE]), "  GPU           NVIDIA H200, 140 GiB, bf16"),
        (TORCH.format(gpus=[LARGE, OLD, LARGE]), "  GPU           2 x NVIDIA H200, 140 GiB, bf16; GTX 1080, 8 GiB, no bf16"),
        (TORCH.format(gpus=[]), "- GPU           missing, for training faster; torch 2.9 finds none"),
        ("raise OSError('libcudart.so: no such file')", "torch 2.9 fails (OSError: libcudart.so: no such file)"),
        ("import time; time.sleep(60)", "torch has not answered for 2 s"),
    ],
)  # fmt: skip
def test_a_doctor_names_the_gpus_that_torch_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, said: str
) -> None:
    (tmp_path / "torch.py").write_text(torch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(doctor, "GPU_DRIVERS", (str(tmp_path),))
    monkeypatch.setattr(doctor, "installed_version", lambda name: "2.9")
    if "sleep" in torch:
        monkeypatch.setattr(doctor, "_PATIENCE_S", 2)
    registry = Registry({"core": jcw_core.plugin}, installed=False)
    assert said in invoke(build(registry), "doctor").stdout


def test_a_doctor_asks_no_torch_where_there_is_none_or_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(doctor, "GPU_DRIVERS", (str(tmp_path / "none"),))
    assert "no driver" in doctor._gpu().remedy
    monkeypatch.setattr(doctor, "GPU_DRIVERS", (str(tmp_path),))
    monkeypatch.setattr(doctor, "installed_version", lambda name: None)
    assert doctor._gpu().remedy == "pip install 'jcw-core[supernet]'"

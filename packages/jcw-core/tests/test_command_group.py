"""``jcw --help``, commands that are not there, completion and ``jcw doctor``."""

from __future__ import annotations

import json
import shutil
import subprocess

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
    assert {"machine", "Python", "processors", "engine", *doctor.PACKAGES, *doctor.PROGRAMS} <= set(found)
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

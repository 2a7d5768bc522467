"""The registry: every hook is called, plugins clash by name, broken ones do not take others down."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

import jcw_core.plugin
from jcw_core.errors import PluginError
from jcw_core.hookspecs import hookimpl
from jcw_core.network.graph import Network
from jcw_core.options import option
from jcw_core.protocols import Progress
from jcw_core.ranks import Ranks
from jcw_core.registry import Registry

FAMILIES = {
    "jcw_register_backbones": ("backbones", "backbone"),
    "jcw_register_devices": ("devices", "device"),
    "jcw_register_objectives": ("objectives", "objective"),
    "jcw_register_selections": ("selections", "selection strategy"),
    "jcw_register_importances": ("importances", "importance"),
    "jcw_register_datasets": ("datasets", "dataset"),
    "jcw_register_exporters": ("exporters", "exporter"),
    "jcw_register_stages": ("stages", "stage"),
    "jcw_register_report": ("report_sections", "report section"),
    "jcw_register_commands": ("commands", "command"),
}


@dataclass(frozen=True)
class Options:
    size: int = option(1)


def plugin(hook: str, function) -> SimpleNamespace:
    return SimpleNamespace(**{hook: hookimpl(function)})


def member(hook: str, name: str) -> object:
    """The least that a plugin may register."""
    return command(name) if hook == "jcw_register_commands" else SimpleNamespace(name=name, **PARTS[hook])


def command(name: str) -> click.Command:
    return click.Command(name)


def nothing(*arguments: object) -> None:
    pass


PARTS: dict[str, dict[str, Any]] = {
    "jcw_register_backbones": {"bounds": (), "build": nothing},
    "jcw_register_devices": {"options": Options, "open": nothing},
    "jcw_register_objectives": {"unit": "", "needs": (), "open": nothing},
    "jcw_register_selections": {"select": nothing},
    "jcw_register_importances": {"measure": nothing},
    "jcw_register_datasets": {"options": Options, "open": nothing},
    "jcw_register_exporters": {"suffix": ".x", "export": nothing},
    "jcw_register_stages": {
        "section": "", "options": None, "reads": (), "makes": (), "needs": nothing, "run": nothing
    },
    "jcw_register_report": {"title": "T", "order": 1, "data": nothing, "html": nothing},
}  # fmt: skip


def named(*names: str, hook: str = "jcw_register_devices"):
    return lambda: [member(hook, name) for name in names]


@pytest.mark.parametrize("hook", FAMILIES)
def test_each_family_comes_from_its_hook(hook: str) -> None:
    family, _ = FAMILIES[hook]
    registry = Registry(
        {"one": plugin(hook, named("a", "b", hook=hook)), "two": plugin(hook, named("c", hook=hook))},
        installed=False,
    )
    assert sorted(getattr(registry, family)) == ["a", "b", "c"]
    assert getattr(registry, family).origins == {"a": "one", "b": "one", "c": "two"}
    assert all(len(getattr(registry, other)) == 0 for other, _ in FAMILIES.values() if other != family)


@pytest.mark.parametrize("hook", FAMILIES)
def test_two_plugins_that_claim_one_name(hook: str) -> None:
    family, kind = FAMILIES[hook]
    plugins = {name: plugin(hook, named("a", hook=hook)) for name in ("one", "two")}
    registry = Registry(plugins, installed=False)
    with pytest.raises(PluginError, match=f"two plugins claim the {kind} 'a': .*(one and two|two and one)"):
        getattr(registry, family)


def _fails():
    raise RuntimeError("no such library")


@pytest.mark.parametrize(
    "broken",
    [
        _fails,
        lambda: None,
        lambda: 3,
        lambda: [object()],
        lambda: (_ for _ in [1 / 0]),
        lambda: sys.exit("no"),
        lambda: (_ for _ in ()).throw(BaseException("no")),
        lambda: "abc",
        lambda: {"name": 1},
    ],
)
def test_a_plugin_that_fails_is_named_and_the_others_work(broken) -> None:
    hook = "jcw_register_devices"
    registry = Registry({"bad": plugin(hook, broken), "good": plugin(hook, named("a"))}, installed=False)
    assert list(registry.devices) == ["a"]
    assert list(registry.failures) == ["bad"]
    assert registry.failures["bad"].startswith(hook)
    with pytest.raises(
        PluginError, match=r"unknown device 'x'; `jcw plugins` tells why .*: bad; there is: a"
    ):
        registry.devices["x"]


def test_hooks_that_do_not_exist_or_have_another_signature() -> None:
    registry = Registry(
        {
            "typo": plugin("jcw_register_device", named("a")),
            "arguments": plugin("jcw_register_devices", lambda recipe: []),
            "good": plugin("jcw_register_devices", named("a")),
        },
        installed=False,
    )
    assert set(registry.failures) == {"typo", "arguments"}
    assert "jcw_register_device" in registry.failures["typo"]
    assert list(registry.devices) == ["a"]


def test_a_family_is_a_mapping() -> None:
    stages = Registry({"core": jcw_core.plugin}, installed=False).stages
    assert stages.get("no such stage") is None
    assert stages.get("no such stage", 3) == 3
    assert stages.get("report") is stages["report"]
    assert dict(stages) == {name: stages[name] for name in stages}


def test_unknown_names_say_what_there_is_and_what_to_install() -> None:
    registry = Registry({"one": plugin("jcw_register_devices", named("b", "a"))}, installed=False)
    with pytest.raises(PluginError, match=r"unknown device 'host'; install jcw-kernels; there is: a, b$"):
        registry.devices["host"]
    with pytest.raises(PluginError, match=r"unknown backbone 'vgg'; there is: none$"):
        registry.backbones["vgg"]
    assert "host" not in registry.devices


def test_progress_reaches_every_listener() -> None:
    heard: list[tuple[str, Progress]] = []

    def listener(name: str):
        return plugin("jcw_progress", lambda event: heard.append((name, event)))

    event = Progress("search", "generation", 1, 10)
    Registry({"one": listener("one"), "two": listener("two")}, installed=False).progress(event)
    assert sorted(heard, key=lambda h: h[0]) == [("one", event), ("two", event)]


def test_an_exception_of_a_progress_listener_ends_the_run() -> None:
    def stop(event: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Registry({"one": plugin("jcw_progress", stop)}, installed=False).progress(Progress("s", "u", 0, 1))


def _install(folder: Path, distribution: str, module: str, code: str) -> None:
    """What pip leaves behind of a plugin, without pip."""
    (folder / f"{module}.py").write_text(textwrap.dedent(code))
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[jcw]\n{module} = {module}\n")


DEVICE = """
    from dataclasses import dataclass
    from types import SimpleNamespace
    from jcw_core.hookspecs import hookimpl

    @dataclass
    class Options:
        pass

    @hookimpl
    def jcw_register_devices():
        return [SimpleNamespace(name="shared", options=Options, open=print)]
"""


def _python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_installed_plugins_clash_by_distribution_and_fail_alone(tmp_path: Path) -> None:
    _install(tmp_path, "alpha-devices", "alpha", DEVICE)
    _install(tmp_path, "beta-devices", "beta", DEVICE)
    _install(tmp_path, "gamma-devices", "gamma", "import a_module_that_is_not_there")
    result = _python(
        tmp_path,
        """
        from jcw_core.errors import PluginError
        from jcw_core.registry import Registry
        registry = Registry()
        print(registry.failures["gamma (gamma-devices)"])
        print("resnet18" in registry.backbones)
        try:
            registry.devices
        except PluginError as error:
            print(error)
        """,
    )
    assert result.stdout.splitlines() == [
        "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
        "True",
        "two plugins claim the device 'shared': alpha-devices and beta-devices; uninstall one",
    ], result.stderr


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise BaseException('no luck')", "BaseException: no luck"),
        ("raise GeneratorExit", "GeneratorExit: "),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("class E(Exception):\n    __str__ = None\nraise E", "E"),
    ],
)
def test_a_plugin_whose_import_fails_in_any_way(tmp_path: Path, code: str, reason: str) -> None:
    _install(tmp_path, "gamma-devices", "gamma", "print('hello')\n" + code)
    result = _python(
        tmp_path,
        """
        from jcw_core.cli.main import _run
        import sys
        sys.argv = ["jcw", "networks", "--json", "resnet18"]
        status = _run()
        assert status == 0, status
        """,
    )
    assert (result.returncode, "Traceback" in result.stderr) == (0, False), result.stderr
    assert Network.from_json(result.stdout).name == "resnet18"
    assert "hello" in result.stderr
    sys_argv = (
        "import sys; sys.argv = ['jcw', 'plugins']\nfrom jcw_core.cli.main import _run\nsys.exit(_run())"
    )
    listed = _python(tmp_path, sys_argv)
    assert listed.returncode == 2
    assert "gamma-devices" in listed.stderr
    assert reason.strip() in listed.stderr
    assert "Traceback" not in listed.stderr


def test_listing_plugins_imports_no_implementation(tmp_path: Path) -> None:
    result = _python(
        tmp_path,
        """
        import sys
        from jcw_core.registry import Registry
        registry = Registry()
        list(registry.commands), list(registry.stages)
        print([m for m in ("torch", "PIL", "scipy", "matplotlib") if m in sys.modules])
        """,
    )
    assert result.stdout == "[]\n", result.stderr


def test_processes_are_those_of_the_first_plugin_that_knows_any() -> None:
    found = Ranks()
    plugins = {"one": plugin("jcw_join_ranks", lambda: None), "two": plugin("jcw_join_ranks", lambda: found)}
    assert Registry(plugins, installed=False).join_ranks() is found
    del plugins["two"]
    assert Registry(plugins, installed=False).join_ranks().size == 1


@pytest.mark.parametrize("variables", [{}, {"WORLD_SIZE": "1", "RANK": "0"}, {"WORLD_SIZE": "4"}])
def test_a_process_is_alone_unless_it_was_started_as_one_of_several(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Registry().join_ranks().size == 1

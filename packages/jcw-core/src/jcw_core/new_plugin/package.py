"""The files of a new package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

from jcw_core import hookspecs
from jcw_core.files import atomic_folder
from jcw_core.new_plugin.kinds import KINDS, Kind
from jcw_core.new_plugin.names import Names
from jcw_core.providers import installed_version

_FLOOR = "0.1.0"


def write(folder: Path, kind: str, names: Names) -> None:
    """Write a package that can be installed and passes its test; it appears whole.

    Raises:
        FileExistsError: ``folder`` is there already.
    """
    with atomic_folder(folder) as temporary:
        for place, text in contents(kind, names).items():
            path = temporary / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def contents(kind: str, names: Names) -> dict[str, str]:
    """The text of each file, by its path."""
    chosen = KINDS[kind]
    values = {
        "distribution": names.distribution,
        "package": names.package,
        "name": names.plugin,
        "module": kind,
        "what": chosen.what,
        "use": Template(chosen.use).substitute(name=names.plugin),
        "floor": installed_version("jcw-core") or _FLOOR,
        **_of_hook(chosen),
    }
    door = "door" if chosen.family else "listener"
    source = f"src/{names.package}"
    templates = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{source}/__init__.py": f"{door}.py",
        f"{source}/{kind}.py": f"{kind}.py",
        "tests/test_plugin.py": f"{kind}_test.py",
    }
    return {place: _filled(template, values) for place, template in templates.items()}


def _of_hook(kind: Kind) -> dict[str, str]:
    """What the specification of its hook says."""
    spec = getattr(hookspecs, kind.hook)
    returned = str(spec.__annotations__["return"])
    (member,) = re.findall(r"\[(.+)\]", returned) or [""]
    types = "import click" if member.startswith("click.") else f"from jcw_core.protocols import {member}"
    contract = (spec.__doc__ or "").strip().splitlines()[0]
    return {
        "hook": kind.hook, "returned": returned, "types": types, "contract": contract, "made": kind.made, "call": kind.call,
    }  # fmt: skip


def _filled(template: str, values: Mapping[str, str]) -> str:
    text = files(__package__).joinpath("templates", f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(values)

"""What the objects that plugins register must have and give, family by family; see ``jcw_core.protocols``."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from jcw_core.errors import JcwError, PluginError
from jcw_core.names import is_path_inside, is_plain_name, is_text
from jcw_core.network.graph import Network
from jcw_core.options import TABLES

if TYPE_CHECKING:
    from jcw_core.protocols import Backbone

REPORT_KEYS = ("format", "device", "network", "dataset", "layers", "front", "baseline", "models")
"""Keys of every report; the others belong to sections."""

_SCALARS = (bool, int, float, str, Path)


@dataclass(frozen=True, slots=True)
class _Rule:
    """What an attribute must be: a test, its words for errors, and whether it may be missing."""

    fits: Callable[[Any], bool]
    expected: str
    optional: bool = False


def check_members(hook: str, found: Any) -> Iterable[Any]:
    """What ``hook`` returned, as it was. Raises ``PluginError`` for anything but a list of such objects."""
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        raise PluginError(f"it returned {found!r:.60}, expected a list")
    members = list(found)
    for member in members:
        check_member(hook, member)
    return members


def check_member(hook: str, member: Any) -> None:
    """Raise ``PluginError`` unless ``member``, returned by ``hook``, has what its protocol asks for.

    Numbers of arguments are left to the calls: a function may take them in many ways.
    """
    what = _called(member)
    if hook == "jcw_register_commands" and not _is_command(member):
        raise PluginError(f"{what}: expected a click command")
    for key, rule in {"name": _NAME, **_RULES[hook]}.items():
        if rule.optional and not hasattr(member, key):
            continue
        if not hasattr(member, key):
            raise PluginError(f"{what} has no {key!r}, expected {rule.expected}")
        value = getattr(member, key)
        if not rule.fits(value):
            raise PluginError(f"{what}: {key} is {value!r:.60}, expected {rule.expected}")
        if rule.expected == _METHOD.expected and _lacks_self(member, key):
            raise PluginError(f"{what} is a class; register an instance of it")
    if hook == "jcw_register_stages" and (member.section == "") != (member.options is None):
        raise PluginError(f"{what}: section and options go together; give both or neither")


def build_network(backbone: Backbone, **shape: Any) -> Network:
    """The network of any backbone, a plugin's too; ``shape`` is what its ``build`` takes.

    Raises:
        JcwError: from the backbone.
        PluginError: it failed in another way or returned something else.
    """
    try:
        network: object = backbone.build(**shape)
    except (JcwError, MemoryError):
        raise
    except Exception as error:
        raise PluginError(
            f"backbone {backbone.name!r} failed ({type(error).__name__}: {error}); tell its author"
        ) from error
    if not isinstance(network, Network):
        raise PluginError(
            f"backbone {backbone.name!r} built {network!r:.60}, expected a Network; tell its author"
        )
    return network


def check_distinct(stages: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Raise ``PluginError`` when two stages claim one table of the recipe or make one file."""
    claimed: dict[str, str] = {}
    for name, stage in stages.items():
        table = [f"recipe table [{stage.section}]"] if stage.section else []
        for claim in (*table, *(f"file {made}" for made in stage.makes)):
            if claim in claimed:
                one, two = (f"{stage!r} of {origins[stage]}" for stage in (claimed[claim], name))
                raise PluginError(f"two stages claim the {claim}: {one} and {two}; uninstall one")
            claimed[claim] = name


def _called(member: Any) -> str:
    name = getattr(member, "name", None)
    return repr(name) if is_text(name) else f"{member!r:.60}"


def _lacks_self(member: Any, key: str) -> bool:
    return isinstance(member, type) and isinstance(inspect.getattr_static(member, key), types.FunctionType)


def _is_list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (tuple, list)) and all(map(fits, value))


def _are_bounds(value: Any) -> bool:
    from jcw_core.space.bounds import Bound

    return isinstance(value, Sequence) and all(isinstance(bound, Bound) for bound in value)


def _is_command(value: Any) -> bool:
    import click

    return isinstance(value, click.Command)


def _is_table(section: Any) -> bool:
    return section == "" or (is_plain_name(section) and section not in TABLES)


def _are_options(value: Any) -> bool:
    """True for a dataclass of which each field is of a type that recipes can give, with a default to match."""
    if not (isinstance(value, type) and is_dataclass(value)):
        return False
    try:
        hints = get_type_hints(value)
        return all(_is_option(hints[one.name]) and _has_plain_default(one) for one in fields(value))
    except Exception:  # a name in an annotation may stand for nothing, or for anything
        return False


def _is_option(hint: Any) -> bool:
    """True for the types that ``jcw_core.options.parse`` knows."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [a for a in arguments if a is not type(None)]
        return len(inner) == 1 and _is_option(inner[0])
    if origin is tuple:
        return len(arguments) == 2 and arguments[1] is Ellipsis and _is_option(arguments[0])
    return origin is Literal or hint in _SCALARS or _are_options(hint)


def _has_plain_default(one: Field[Any]) -> bool:
    default = one.default if one.default_factory is MISSING else one.default_factory()
    if default is not MISSING and not is_dataclass(default) and not isinstance(default, Path):
        json.dumps(default)
    return True


_NAME = _Rule(is_text, "a name")
_TEXT = _Rule(lambda value: isinstance(value, str) and (value == "" or is_text(value)), "text")
_METHOD = _Rule(callable, "a method")
_OPTIONAL = _Rule(callable, "a method", optional=True)
_NAMES = _Rule(_is_list_of(is_text), "a tuple of names")
_FILES = _Rule(_is_list_of(is_path_inside), "a tuple of paths inside the run")
_OPTIONS = _Rule(_are_options, "a dataclass of jcw_core.options.option")

_RULES: Mapping[str, Mapping[str, _Rule]] = {
    "jcw_register_backbones": {"bounds": _Rule(_are_bounds, "a sequence of Bound"), "build": _METHOD},
    "jcw_register_devices": {"options": _OPTIONS, "open": _METHOD, "advise": _OPTIONAL},
    "jcw_register_objectives": {
        "unit": _TEXT,
        "needs": _FILES,
        "open": _METHOD,
        "reads": _Rule(_NAMES.fits, _NAMES.expected, optional=True),
    },
    "jcw_register_selections": {"select": _METHOD},
    "jcw_register_importances": {"measure": _METHOD},
    "jcw_register_datasets": {"options": _OPTIONS, "open": _METHOD},
    "jcw_register_exporters": {
        "suffix": _Rule(
            lambda value: is_text(value) and value[0] == "." and is_plain_name(value[1:]),
            "the end of a file's name, with its dot",
        ),
        "export": _METHOD,
    },
    "jcw_register_stages": {
        "name": _Rule(
            lambda value: is_plain_name(value) and "." not in value,
            "a name without slashes and dots, as it names a folder and files",
        ),
        "section": _Rule(_is_table, f'"" or a table beside {", ".join(TABLES)}'),
        "options": _Rule(lambda value: value is None or _are_options(value), f"None or {_OPTIONS.expected}"),
        "reads": _NAMES,
        "makes": _FILES,
        "needs": _METHOD,
        "run": _METHOD,
        **dict.fromkeys(("plugins_read", "check", "check_reads", "plan", "so_far"), _OPTIONAL),
    },
    "jcw_register_report": {
        "name": _Rule(
            lambda value: is_text(value) and value not in REPORT_KEYS,
            f"a name beside {', '.join(REPORT_KEYS)}",
        ),
        "title": _NAME,
        "order": _Rule(lambda value: isinstance(value, (int, float)) and value == value, "a number"),
        "data": _METHOD,
        "html": _METHOD,
    },
    "jcw_register_commands": {},
}
"""By hook, what each attribute beside the name must be."""

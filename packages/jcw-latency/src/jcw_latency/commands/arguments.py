"""Options and arguments that several commands take, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jcw_core.network.architecture import Architecture
    from jcw_core.network.graph import Network
    from jcw_core.options import Location
    from jcw_core.protocols import Device
    from jcw_core.registry import Registry
    from jcw_core.space.space import SearchSpace

Decorator = Callable[[Any], Any]

PATH = click.Path(path_type=Path)

device_options = click.option(
    "--option",
    "device_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the device; may be repeated.",
)
network_name = click.option(
    "--network", "network_name", help="One of the table's networks, if it has several."
)


def combined(options: Sequence[Decorator]) -> Decorator:
    """Several decorators as one, the first on top."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def seed_of(what: str) -> Decorator:
    """The option ``--seed``."""
    return click.option(
        "--seed", default=0, show_default=True, type=click.IntRange(0), help=f"Seed of {what}."
    )


@contextmanager
def progress_shown(registry: Registry) -> Iterator[None]:
    """Show the registry's progress in the terminal."""
    from jcw_core.cli.progress import TerminalProgress

    with TerminalProgress() as listener:
        registry.add("terminal-progress", listener)
        yield


def space_of(registry: Registry, network: Network) -> SearchSpace:
    """The space of a network, with the bounds of the backbone of its name."""
    from jcw_core.space.space import SearchSpace

    known = network.name in registry.backbones
    return SearchSpace.of(network, defaults=registry.backbones[network.name].bounds if known else ())


def network_of(
    registry: Registry,
    name: str,
    shape: Sequence[int] | None = None,
    outputs: Sequence[str] = (),
    **built: Any,
) -> Network:
    """The network of a ``.json`` or ``.onnx`` file, or a backbone.

    Args:
        registry: of backbones.
        name: of either.
        shape: (images, channels, height, width), for an ONNX file that leaves sizes open.
        outputs: values of an ONNX file at which the network ends.
        built: what a backbone's ``build`` takes.
    """
    from jcw_core.errors import NetworkError
    from jcw_core.formats.network_file import SUFFIXES, read_network
    from jcw_core.plugin_checks import build_network

    path = Path(name)
    kind = path.suffix.lower()
    if kind in SUFFIXES:
        return read_network(path, shape, outputs)
    if name not in registry.backbones and ":" in name and not path.exists():
        raise NetworkError(
            f"{name}: expected a backbone or a file; of a torch module "
            f"`jcw networks {name} --shape 1,3,224,224 --json > network.json` makes one"
        )
    if name not in registry.backbones and (kind or path.exists()):
        known = ", ".join(sorted(registry.backbones))
        raise NetworkError(
            f"{name}: neither a file whose name ends in {' or '.join(SUFFIXES)} nor a backbone; there is: {known}"
        )
    if outputs:
        raise NetworkError(f"--outputs: {name} is a backbone, expected an ONNX file; leave them out")
    return build_network(registry.backbones[name], **built)


def open_device(registry: Registry, name: str, options: tuple[str, ...]) -> Device:
    """Connect to a device with the command line's ``--option`` pairs."""
    from jcw_core.options import parse

    plugin = registry.devices[name]
    return plugin.open(parse(plugin.options, *assignments("--option", options)))


def assignments(flag: str, pairs: tuple[str, ...]) -> tuple[dict[str, Any], Location]:
    """KEY=VALUE pairs as the table of a recipe, and where they stand."""
    from jcw_core.options import Location, assignment

    return dict(assignment(pair, flag) for pair in pairs), Location(Path(flag))


def read_architectures(path: Path, network: str) -> list[tuple[str, Architecture]]:
    """The architectures of a file, each with a label: one alone, a front, or the models of a run.

    Raises:
        FormatError: the file is no such file, or a front of another network than ``network``.
    """
    from jcw_core.errors import ArchitectureError, FormatError
    from jcw_core.files import read_json
    from jcw_core.network.architecture import Architecture
    from jcw_core.run.records import ChosenModel, Front

    document = read_json(path)
    kind = document.get("format") if isinstance(document, dict) else None
    if kind == Front.FORMAT:
        front = Front.read(path)
        if front.network != network:
            raise FormatError(
                f"{path}: a front of {front.network!r}, expected one of {network!r}; predict it from a table of its "
                "own network, chosen with --network where a table has several"
            )
        return [(f"{path}[{i}]", c.architecture) for i, c in enumerate(front.candidates)]
    if kind == ChosenModel.FORMAT:
        return [(f"{path}[{m.id}]", m.architecture) for m in ChosenModel.read_all(path)]
    try:
        return [(str(path), Architecture.from_dict(document))]
    except ArchitectureError as error:
        raise ArchitectureError(f"{path}: {error}") from None

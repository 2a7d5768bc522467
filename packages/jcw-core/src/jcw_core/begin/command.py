"""``jcw init``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jcw_core.registry import Registry

if TYPE_CHECKING:
    from jcw_core.begin.found import Found
    from jcw_core.begin.text import Wanted

_PATH = click.Path(path_type=Path)
_LARGEST = 224


@click.command()
@click.argument("folder", type=_PATH)
@click.option(
    "--network",
    default="",
    help="A backbone, or a file: .onnx with its weights, .json. Chosen by the images' size.",
)
@click.option(
    "--budget-ms", type=click.FloatRange(0, min_open=True), help="Latency that a model is to keep to."
)
@click.option("--out", type=_PATH, default="recipe.toml", show_default=True, help="Recipe to write.")
@click.pass_obj
def init(registry: Registry, folder: Path, network: str, budget_ms: float | None, out: Path) -> None:
    """Write a recipe for a folder of images.

    FOLDER, which may be a .zip, has images as split/class/file (train, and test or val) or class/file; for a trained
    network of an .onnx file they may lie side by side as well.
    """
    from jcw_core.begin.found import TEST_SHARE, look
    from jcw_core.begin.text import recipe_text
    from jcw_core.cli.text import echo
    from jcw_core.errors import JcwError
    from jcw_core.files import atomic

    if out.exists():
        raise JcwError(f"{out}: is there already; give another name with --out")
    found = look(folder, TEST_SHARE)
    text = recipe_text(found, _wanted(registry, found, network, budget_ms, out))
    with atomic(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    echo(str(found))
    echo(f"{out}: look it through, then {_command(out)} --dry-run")


def _wanted(registry: Registry, found: Found, network: str, budget_ms: float | None, out: Path) -> Wanted:
    """The network, and how it and the images are called from the recipe's folder."""
    from jcw_core.begin.found import SMALL
    from jcw_core.begin.text import Wanted
    from jcw_core.formats.network_file import SUFFIXES
    from jcw_core.network.model import Model
    from jcw_core.recipe.recipe import NetworkOptions
    from jcw_core.run.source import brought

    images, command = _from(out, found.path), _command(out)
    if Path(network).suffix.lower() not in SUFFIXES:
        name = network or ("resnet18" if found.short_side < SMALL else "mobilenet_v2")
        _ = registry.backbones[name]
        side = min(_LARGEST, max(8, found.short_side // 8 * 8))
        plane = (found.channels, side, side)
        return Wanted(("backbone", name), False, images, plane, 0, budget_ms, command)
    made = brought(NetworkOptions(file=Path(network)), (), Path.cwd())
    trained, graph = isinstance(made, Model), made.network if isinstance(made, Model) else made
    plane = _plane(graph.input_shape, network)
    file = _from(out, Path(network))
    return Wanted(("file", file), trained, images, plane, graph.num_classes, budget_ms, command)


def _plane(shape: tuple[int, ...], network: str) -> tuple[int, int, int]:
    from jcw_core.errors import DataError

    if len(shape) != 3 or shape[0] not in (1, 3):
        raise DataError(f"{network}: takes {shape}, which no image file is; expected 1 or 3 channels")
    channels, height, width = shape
    return channels, height, width


def _from(out: Path, path: Path) -> str:
    """A path as the recipe has to have it."""
    from jcw_core.errors import DataError

    if not str(path).isprintable():
        raise DataError(f"{path}: characters in its name cannot stand in a recipe; rename it")
    return os.path.relpath(path.resolve(), out.resolve().parent)


def _command(out: Path) -> str:
    return f"jcw run {shlex.quote(str(out))}"

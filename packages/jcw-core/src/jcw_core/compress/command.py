"""``jcw compress``."""

from __future__ import annotations

from pathlib import Path

import click

from jcw_core.cli.network_options import outputs_option
from jcw_core.protocols import Precision
from jcw_core.registry import Registry

_PATH = click.Path(path_type=Path)


def _numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, ...]:
    """``0.485,0.456,0.406`` as numbers; an error names the option."""
    try:
        return tuple(map(float, text.split(","))) if text else ()
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers, such as 0.485,0.456,0.406") from None


def _shape(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """``1,3,224,224`` as numbers; an error names the option."""
    if text is None:
        return None
    sizes = text.replace("x", ",").split(",")
    if len(sizes) != 4 or not all(s.strip().isdecimal() and int(s) > 0 for s in sizes) or int(sizes[0]) != 1:
        raise click.BadParameter(f"{text!r} is not the shape of one image, such as 1,3,224,224")
    return tuple(map(int, sizes))


@click.command()
@click.argument("model")
@click.option(
    "--images", required=True, type=_PATH, help="Folder or .zip: split/class/file, class/file or file."
)
@click.option(
    "--budget-ms", "budgets", required=True, multiple=True, type=float, help="Latency; may be repeated."
)
@click.option("--device", default="host", show_default=True, help="Name of a device; jcw plugins lists them.")
@click.option(
    "--precision",
    type=click.Choice(["float32", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="What the model computes with; int8 is faster on processors with dot products of bytes, float16 on those with FP16.",
)
@click.option("--weights", type=_PATH, help="Trained weights, where MODEL brings none: .pth or .safetensors.")
@click.option("--shape", callback=_shape, help="One image, for open sizes and modules: 1,3,224,224.")
@outputs_option
@click.option("--out", type=_PATH, help="Folder of the run; compressed/NAME by default.")
@click.option("--resize", type=click.IntRange(1), help="Short side of images before the middle is cut out.")
@click.option("--mean", callback=_numbers, help="Per channel, of pixels in [0, 1]; ImageNet's by default.")
@click.option("--std", callback=_numbers, help="Per channel; ImageNet's by default.")
@click.option("--names", type=_PATH, help="Text file with the name of a class in each line.")
@click.option("--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="As jcw run takes it.")
@click.pass_obj
def compress(
    registry: Registry,
    model: str,
    images: Path,
    budgets: tuple[float, ...],
    device: str,
    precision: Precision,
    weights: Path | None,
    shape: tuple[int, ...] | None,
    outputs: tuple[str, ...],
    out: Path | None,
    resize: int | None,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    names: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Prune a trained network to run within a latency.

    MODEL needs no labels and no training.

    MODEL is an .onnx file, a network of ours (.json, with --weights), or PACKAGE.MODULE:FUNCTION that returns a torch
    module. A run that was interrupted continues where it stopped.
    """
    from jcw_core.cli.following import following
    from jcw_core.cli.text import echo, note
    from jcw_core.compress.outcome import hand_over
    from jcw_core.compress.request import Request, default_folder
    from jcw_core.compress.work import Work, check_budgets

    request = Request(
        model, weights, shape, images, check_budgets(budgets), device, out or default_folder(model),
        resize, mean, std, names, precision, outputs,
    )  # fmt: skip
    with following(request.out, registry) as follow:
        work = Work(request, registry, settings, follow, lambda found: note(f"note: {found}"))
        context = work.run()
    for line in hand_over(context, request.budgets_ms):
        echo(line)
    echo(f"report: {context.path('report.html').absolute()}")

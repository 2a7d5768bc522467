"""``jcw predict-image``: what a model sees in image files, with nothing but its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jcw_kernels.program import Program

_PATH = click.Path(path_type=Path)


@click.command("predict-image")
@click.argument("model", type=_PATH)
@click.argument("photos", type=_PATH, nargs=-1, required=True)
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="Classes to print.")
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(1, 256), help="Threads per image."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
def predict_image(model: Path, photos: tuple[Path, ...], top: int, threads: int, as_json: bool) -> None:
    """Say what a model sees in photos, and how long it takes.

    MODEL is a model.jcw, PHOTOS are image files.
    """
    from jcw_core.cli.text import echo
    from jcw_kernels.program import load

    program = load(model, threads=threads)
    _require_classes(program, model)
    found = {
        "model": str(model),
        "latency_ms": program.time(seconds=0.1) * 1e3,
        "images": [
            {"file": str(photo), "classes": classes_in(program, photo, model)[:top]} for photo in photos
        ],
    }
    if as_json:
        click.echo(json.dumps(found))
        return
    echo(f"{model}: {found['latency_ms']:.3f} ms an image")
    for image in found["images"]:  # type: ignore[attr-defined]
        echo(f"{image['file']}:")
        for one in image["classes"]:
            echo(f"  {one['probability']:7.2%}  {one['name']}")


def _require_classes(program: Program, model: Path) -> None:
    """Raise ``FormatError`` for a network that makes no classes: what it sees is for other tools to say."""
    from jcw_core.errors import FormatError

    if not program.classifies:
        made = ", ".join(f"{name} {'x'.join(map(str, s))}" for name, s in program.output_shapes.items())
        raise FormatError(
            f"{model}: does not classify, but makes {made}; Program.split has them by name for tools of your own"
        )


def classes_in(program: Program, photo: Path, model: Path) -> list[dict[str, Any]]:
    """All classes of an image, the most probable first, with their ``label``, ``name`` and ``probability``.

    Raises:
        FormatError: the model's file does not say how images become its input.
        DataError: the image cannot be read.
    """
    images = pixels_of(program, photo, model)
    probabilities = as_probabilities(program.run(images)[0])
    names = program.images.classes if program.images else ()
    return [
        {
            "label": int(label),
            "name": names[label] if label < len(names) else f"class {label}",
            "probability": float(probabilities[label]),
        }
        for label in (-probabilities).argsort(kind="stable")
    ]


def pixels_of(program: Program, photo: Path, model: Path) -> NDArray[np.float32]:
    """The input (1, channels, height, width) that an image file makes."""
    import numpy as np

    from jcw_core.datasets.decoding import Decoder
    from jcw_core.datasets.split import normalise
    from jcw_core.errors import DataError, FormatError

    told, (channels, height, width) = program.images, program.input_shape
    if told is None or len(told.mean) != channels or channels not in (1, 3):
        raise FormatError(
            f"{model}: does not say how an image becomes its input; export it again from a run with images"
        )
    try:
        content = photo.read_bytes()
    except OSError as error:
        hint = "; give its images, e.g. with /*.jpg" if photo.is_dir() else ""
        raise DataError(f"{photo}: cannot be read ({error.strerror or error}){hint}") from None
    decode = Decoder(height, max(told.resize, height), channels, width)
    return np.ascontiguousarray(normalise(decode(content, str(photo))[None], told))


def as_probabilities(outputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Outputs (classes,) as they are where they are probabilities already, else their softmax."""
    import numpy as np

    values = outputs.astype(np.float64)
    if len(values) > 1 and values.min() >= 0 and abs(values.sum() - 1) < 1e-3:
        return values
    grown = np.exp(values - values.max())
    shares: NDArray[np.float64] = grown / grown.sum()
    return shares

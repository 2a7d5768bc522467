"""``Request``: what a user asks of ``jcw compress``, and the network that it is about."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jcw_core.errors import JcwError, NetworkError
from jcw_core.formats.network_file import SUFFIXES
from jcw_core.formats.weights_file import with_weights
from jcw_core.names import is_plain_name
from jcw_core.network.model import Model
from jcw_core.protocols import Precision
from jcw_core.recipe.recipe import NetworkOptions
from jcw_core.run.source import MODULE_SHAPE, brought


@dataclass(frozen=True)
class Request:
    """The arguments of the command.

    Args:
        model: an ``.onnx`` or ``.json`` file, or ``PACKAGE.MODULE:FUNCTION``.
        weights: a file, None where the model brings its own.
        shape: (1, channels, height, width), None for the model's own.
        images: folder or .zip.
        budgets_ms: latencies, rising, each once.
        device: name of a device.
        out: folder of the run.
        resize: short side of an image before it is cut, None for the input's own size.
        mean, std: per channel, empty for ImageNet's.
        names: file with the names of the classes.
        precision: what the model computes with.
        outputs: values of an ONNX file at which the network ends.
    """

    model: str
    weights: Path | None
    shape: Sequence[int] | None
    images: Path
    budgets_ms: Sequence[float]
    device: str
    out: Path
    resize: int | None = None
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    names: Path | None = None
    precision: Precision = "float32"
    outputs: Sequence[str] = ()

    @property
    def is_file(self) -> bool:
        """True where the model is a file, false where it is a function."""
        return is_file(self.model)

    @cached_property
    def network(self) -> Model:
        """The network with its weights.

        Raises:
            JcwError: it cannot be read, has no weights, or these do not fit or are not finite.
        """
        shape = tuple(self.shape or (MODULE_SHAPE if not self.is_file else ()))
        path = Path(self.model) if self.is_file else None
        module = "" if self.is_file else self.model
        is_onnx = path is not None and _is_onnx(path)
        if is_onnx and self.weights:
            raise JcwError(f"--weights: {self.model} brings its own; leave it out")
        if self.outputs and path is not None and not is_onnx:
            raise JcwError(
                f"--outputs: names values of an ONNX file or modules of a torch module, neither of which {self.model} is; "
                "leave it out"
            )
        weights, outputs = None if is_onnx else self.weights, tuple(self.outputs)
        options = NetworkOptions(file=path, module=module, weights=weights, shape=shape, outputs=outputs)
        found = brought(options, shape[1:], Path.cwd())
        if isinstance(found, Model):
            return found
        if self.weights is None:
            raise JcwError(f"{self.model}: a network without weights; give them with --weights")
        return with_weights(found, self.weights)


def is_file(model: str) -> bool:
    """True for what names a file, false for PACKAGE.MODULE:FUNCTION.

    Raises:
        NetworkError: neither.
    """
    if Path(model).suffix.lower() in SUFFIXES:
        return True
    if ":" in model and not os.path.exists(model):
        return False
    raise NetworkError(
        f"{model}: expected a file whose name ends in {' or '.join(SUFFIXES)}, or PACKAGE.MODULE:FUNCTION that returns "
        "a torch module"
    )


def default_folder(model: str) -> Path:
    """Where the run of a model goes when nobody says."""
    name = Path(model).stem if is_file(model) else model.replace(":", "-")
    if not is_plain_name(name):
        raise JcwError(f"{model}: its name gives no folder; give one with --out")
    return Path("compressed") / name


def _is_onnx(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"

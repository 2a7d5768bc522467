"""``Program``: a compiled network that runs images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import DeviceError, FormatError, JcwError
from jcw_core.files import atomic
from jcw_core.network.image_input import ImageInput
from jcw_core.network.model import Model
from jcw_core.protocols import Precision, WeightType
from jcw_core.shown import count_of
from jcw_kernels._engine import Engine
from jcw_kernels.model_file import (
    classifies,
    images_of,
    output_shapes_of,
    precision_of,
    random_input,
    serialize,
)
from jcw_kernels.quantization import Quantization

_GIVE = "give the model.jcw that jcw compress, or a run below its models, has written"
"""What to do about a path at which there is none."""
_MANY = 2
"""Images for each thread from which on each takes images of its own."""
_LEAST_RUNS = 3
"""The fewest of which one may be disturbed."""
_MOST_RUNS = 1_000_000
_IN_NUMBERS = ("int8", "int8 depthwise", "int8 linear")
"""Kernels whose products are of whole numbers."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """What one step of a program costs.

    Args:
        layer: name of the layer that it belongs to.
        kernel: ``"sparse"``, ``"dense"``, ``"rows"`` (dense, row by row), ``"winograd"``, ``"winograd rows"`` (7 x 7 with a stride of two),
            ``"int8"`` and ``"int8 depthwise"`` (whole numbers), ``"quantize"`` (floats to these), ``"depthwise"``, ``"linear"``, ``"pool"``, ``"elementwise"``, ``"mean"``, ``"portable"`` (plain loops) or ``"copy"``; ``"sparse+depthwise"`` and
            ``"dense+depthwise"`` are a 1 x 1 convolution and the depthwise one that follows it in one step.
        density: share of the weight groups kept.
        macs: multiply-accumulates on kept weights; of the direct form where the kernel is one of Winograd's.
        bytes: activations and weights read and written, each counted once.
        seconds: median time.
        precision: what it computes in.
    """

    layer: str
    kernel: str
    density: float
    macs: float
    bytes: float
    seconds: float
    precision: Precision = "float32"

    @property
    def gflops(self) -> float:
        """Rate on the work that is left."""
        return 2e-9 * self.macs / self.seconds if self.seconds else 0.0


class Program:
    """A network bound to memory and to the kernels of one instruction set.

    Make one with ``compile_model`` or ``load``. It can be copied, pickled and used after a fork.

    Args:
        file: the contents of a ``model.jcw``.
        threads: that work on an image, or on an image each where there are many; the result is the same for any number.
        isa: ``"scalar"``, ``"avx2"``, ``"avx512"`` or ``"neon"``; ``""`` takes what ``JCW_ISA`` names
            or else the best that runs here.
        together: layers whose output only the next one reads may run with it; what is between them then never is in memory
            as a whole.

    Raises:
        FormatError: ``file`` is damaged; the message names the tensor or layer.
        DeviceError: this machine lacks the instruction set, the memory or the threads.
        JcwError: ``threads`` is out of range; ``JCW_WINOGRAD`` is neither ``always`` nor ``never``.
    """

    def __init__(self, file: bytes, *, threads: int = 1, isa: str = "", together: bool = True) -> None:
        if not 1 <= threads <= 256:
            raise JcwError(f"threads is {threads}, expected 1 to 256")
        self._file = file
        self._asked = threads, isa, together
        try:
            self._engine = Engine(file, threads, isa, together)
        except MemoryError:
            raise DeviceError(
                f"a model of {len(file)} bytes takes more memory than this machine has"
            ) from None
        self._image: NDArray[np.float32] | None = None
        self._asked_for_lanes = False

    def __repr__(self) -> str:
        threads = count_of(self.threads, "thread")
        return f"<Program: {self.input_shape} -> {self.outputs}, {self.isa}, {threads}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _program, (self._file, *self._asked)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one image."""
        return self._engine.input_shape

    @property
    def images(self) -> ImageInput | None:
        """How image files become the input; None where the file does not say. Raises ``FormatError``."""
        return images_of(self._file)

    @property
    def outputs(self) -> int:
        """Values per image."""
        return self._engine.outputs

    @property
    def output_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each output of one image by name; of several, ``run`` returns the values one after the other."""
        return output_shapes_of(self._file) or {"output": (self.outputs,)}

    @property
    def classifies(self) -> bool:
        """True where the outputs are one value for each class, not maps, boxes or several of them."""
        return classifies(self._file)

    def split(self, outputs: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """What ``run`` returned, (n, values), as each output by name, (n, ...) in its shape."""
        shapes = self.output_shapes
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        parts = np.split(outputs, ends[:-1], axis=1)
        return {
            name: part.reshape(-1, *shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }

    @property
    def isa(self) -> str:
        """The instruction set in use."""
        return self._engine.isa

    @property
    def precision(self) -> Precision:
        """What its layers compute in; of ``"int8"`` some."""
        return precision_of(self._file)

    @property
    def threads(self) -> int:
        """Threads at work."""
        return self._engine.threads

    @property
    def memory_bytes(self) -> int:
        """Size of all activations, those of images that are computed at the same time included."""
        return self._engine.memory_bytes

    def run(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Run images one after the other, or each on a thread of its own from twice as many on as there are threads.

        The latter takes memory for the activations of as many images as there are threads, and has the same results.

        Args:
            images: (n, channels, height, width) float32, C-contiguous; (n, features) where the input is flat.

        Returns:
            (n, outputs) float32; ``split`` takes several outputs apart.

        Raises:
            JcwError: another shape, type or memory order.
        """
        checked = self._checked(images)
        if len(checked) >= _MANY * self.threads > _MANY and not self._asked_for_lanes:
            self._asked_for_lanes = True
            # Without the memory all threads work on one image after the other.
            with suppress(DeviceError, MemoryError):
                self._engine.add_lanes(self._file)
        return self._engine.run(checked)

    def observe(
        self, image: NDArray[np.float32], tensors: Sequence[int]
    ) -> Sequence[tuple[int, NDArray[np.float32]]]:
        """What lies between the layers for one image (1, channels, height, width).

        Args:
            image: as of ``run``.
            tensors: layer ``i`` of the file makes tensor ``i + 1``.

        Returns:
            each of them with its values (channels, pixels) in the order in which they are made, but for those that layers
            which run together never write.
        """
        return self._engine.observe(self._checked(image), list(tensors))

    def profile(self, images: NDArray[np.float32] | None = None, *, rounds: int = 20) -> Sequence[StepTime]:
        """Time each step on one image (random by default), after a warm-up; medians, as ``time`` takes them."""
        image = self._checked(random_input(self.input_shape) if images is None else images[:1])
        self._engine.profile(image, max(1, rounds // 4))
        seconds = np.median([self._engine.profile(image, 1) for _ in range(max(1, rounds))], axis=0).tolist()
        return [
            StepTime(*step, seconds=time, precision=self._precision_of(step[1]))
            for step, time in zip(self._engine.steps(), seconds, strict=True)
        ]

    def _precision_of(self, kernel: str) -> Precision:
        """What a step of this kind computes in."""
        if self.precision != "int8":
            return self.precision
        return "int8" if kernel in _IN_NUMBERS else "float32"

    def time(self, *, seconds: float = 0.02, first_layer: int = 0) -> float:
        """Seconds of one image, the median of repeated runs.

        A mean would take in the moments at which another process has the core.

        Args:
            seconds: how long to repeat, about; three runs at least.
            first_layer: leave out what the layers before this number cost. They run before each run, so
                that the inputs lie in the caches as they do within a network.
        """
        if self._image is None:
            self._image = random_input(self.input_shape)
            self._engine.run(self._image)
        once = max(self._engine.time(first_layer, self._image, 1)[0], 1e-7)
        runs = min(max(_LEAST_RUNS, round(seconds / once)), _MOST_RUNS)
        return float(np.median(self._engine.time(first_layer, self._image, runs)))

    def save(self, path: Path | str) -> None:
        """Write ``model.jcw``: a temporary file first, then a rename.

        Raises:
            FormatError: a path that no file can have.
            OSError: ``path``, which it names, cannot be written.
        """
        try:
            with atomic(Path(path)) as temporary:
                temporary.write_bytes(self._file)
        except ValueError as error:
            raise FormatError(f"{str(path)!r}: {error}; give another path") from None

    def _checked(self, images: Any) -> NDArray[np.float32]:
        if not isinstance(images, np.ndarray) or images.dtype != np.float32:
            found = getattr(images, "dtype", type(images).__name__)
            raise JcwError(f"images are {found}, expected a numpy array of float32; convert with astype")
        planes: NDArray[np.float32] = images[:, :, None, None] if images.ndim == 2 else images
        if planes.shape[1:] != self.input_shape:
            raise JcwError(
                f"images are {images.shape}, expected (n, {', '.join(map(str, self.input_shape))})"
            )
        if not planes.flags.c_contiguous:
            raise JcwError("images are not C-contiguous; copy them with numpy.ascontiguousarray")
        return planes


def _program(file: bytes, threads: int, isa: str, together: bool) -> Program:
    return Program(file, threads=threads, isa=isa, together=together)


def compile_model(
    model: Model,
    *,
    threads: int = 1,
    isa: str = "",
    weights: WeightType | None = None,
    quantization: Quantization | None = None,
    precision: Precision = "float32",
) -> Program:
    """Fold, fuse and pack ``model`` into a program.

    Args:
        model: what is to run.
        threads, isa: as of ``Program``, whose errors it raises, too.
        weights: what they are stored as; ``"float16"``, the default where ``precision`` is, halves the file, and the program
            computes with what is in it.
        quantization: the numbers that layers read which are to compute with whole ones, as ``calibrate`` chooses
            them.
        precision: ``"float16"`` has all layers compute in half precision, which is faster where a processor has ARMv8.2's
            or AVX-512's extension FP16, and slow elsewhere. Values beyond 65504 become infinite. Sums of more than 64 products are added
            up in float32. ``"int8"`` is what ``quantization`` makes of layers.
    """
    return Program(serialize(model, weights, quantization, precision), threads=threads, isa=isa)


def load(path: Path | str, *, threads: int = 1, isa: str = "") -> Program:
    """Load a ``model.jcw``.

    Raises:
        FormatError: the file is missing or damaged; the message names it.
        DeviceError: as ``Program``.
    """
    try:
        return Program(Path(path).read_bytes(), threads=threads, isa=isa)
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}; {_GIVE}") from None
    except ValueError as error:
        raise FormatError(f"{str(path)!r}: {error}; give another path") from None
    except FormatError as error:
        is_meant = Path(path).suffix == ".jcw"
        what = f"{error}; export the model again" if is_meant else f"not a model.jcw ({error}); {_GIVE}"
        raise FormatError(f"{path}: {what}") from None

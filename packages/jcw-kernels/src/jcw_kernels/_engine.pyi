from collections.abc import Sequence
from typing import Annotated

import jcw_core.errors
import numpy
from numpy.typing import NDArray


class EngineError(jcw_core.errors.JcwError):
    pass

class EngineFormatError(jcw_core.errors.FormatError):
    pass

class EngineDeviceError(jcw_core.errors.DeviceError):
    pass

class Engine:
    """A loaded model, bound to memory and kernels."""

    def __init__(self, file: bytes, threads: int = 1, isa: str = '', together: bool = True) -> None: ...

    def run(self, images: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
        """(n, c, h, w) float32 to (n, outputs) float32."""

    def profile(self, image: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], rounds: int) -> list[float]:
        """Mean seconds of each step."""

    def time(self, layer: int, image: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], runs: int) -> list[float]:
        """Seconds of all steps from the layer with this number on, for each run."""

    def observe(self, image: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], tensors: Sequence[int]) -> list[tuple[int, Annotated[NDArray[numpy.float32], dict(shape=(None, None))]]]:
        """
        (tensor, (channels, pixels) float32) of those of them that are written.
        """

    def add_lanes(self, file: bytes) -> None:
        """
        Has each thread compute an image of its own where there are many; `file` is that of the constructor.
        """

    def poison(self) -> None:
        """Fill all activations with NaN, for tests."""

    def steps(self) -> list[tuple[str, str, float, float, float]]:
        """(layer, kernel, density, multiply-accumulates, bytes) of each step."""

    @property
    def input_shape(self) -> tuple[int, int, int]: ...

    @property
    def outputs(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def isa(self) -> str: ...

    @property
    def threads(self) -> int: ...

def available_isas() -> list[str]:
    """Instruction sets that run here, best first."""

def chosen_isa(isa: str = '') -> str:
    """The instruction set that a program would use."""

def numbers_at_once(isa: str = '') -> int:
    """How many products of whole numbers one instruction sums up."""

def gains_from_numbers(rows: int, columns: int, kept_inputs: float) -> bool:
    """Whether a convolution is taken to be faster with whole numbers."""

def linear_gains_from_numbers(inputs: int, outputs: int, density: float) -> bool:
    """Whether a linear layer is, or a convolution of one output pixel."""

def depthwise_gains_from_numbers(kernel_size: tuple[int, int], stride: tuple[int, int], clamps: bool, out_width: int) -> bool:
    """Whether a depthwise one is, whose activation only clamps or does more."""

def peak_gflops(isa: str = '', precision: str = 'float32', rounds: int = 20) -> float:
    """
    GFLOP/s of the tile loop with its data in L1 cache, at the clock of this moment: the best of some runs.
    """

def copy_gbytes() -> float:
    """GB/s, read and written, of large copies."""

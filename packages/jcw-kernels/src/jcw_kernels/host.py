"""The ``host`` device: this machine, timed through the engine."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.network.operations import CONVOLUTIONS
from jcw_core.network.problem import LayerProblem
from jcw_core.options import option
from jcw_core.protocols import DeviceInfo, Precision, Products
from jcw_core.run.checks import available_cores
from jcw_kernels._engine import chosen_isa
from jcw_kernels.gains import products_here
from jcw_kernels.layer_program import layer_file
from jcw_kernels.program import Program, load

_CHUNK_FLOATS = 200_000_000
"""Weights and activations of the layers that are in memory at one time."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Keys of ``[device]`` for ``name = "host"``."""

    threads: int = option(1, low=1, high=256, help="threads per image")
    isa: str = option("", help="instruction set to force: scalar, avx2, avx512 or neon")
    precision: Precision = option(
        "float32",
        help="what layers are timed in, as export.precision; of int8 those that calibration takes",
    )
    layer_ms: float = option(0.3, low=0.01, high=1000, help="how long each visit to a layer repeats it")
    model_ms: float = option(20.0, low=0.01, high=10000, help="how long each visit to a model repeats it")


class HostPlugin:
    """Registers the device."""

    name = "host"
    options = HostOptions

    def open(self, options: HostOptions) -> HostDevice:
        """Connect. Raises ``DeviceError`` for an instruction set that it lacks."""
        return HostDevice(options)

    def advise(self, options: HostOptions) -> Sequence[str]:
        """Notes on more threads than this process has processors, and on int8 where it gains little."""
        return (*_enough_cores(options.threads), *_gains(options))


def _enough_cores(threads: int) -> Iterator[str]:
    cores = available_cores()
    if threads > cores:
        yield f"device.threads = {threads}, but only {cores} processor(s) are there to run them"


def _gains(options: HostOptions) -> Iterator[str]:
    if options.precision == "int8" and products_here(options.isa) != "bytes":
        yield (
            "device.precision is 'int8', but this processor has no dot products of bytes: few layers gain from it, or none, and "
            "the others stay in floats"
        )


class HostDevice:
    """The machine that runs this; see ``jcw_core.protocols.Device``."""

    model_format = "jcw"

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._isa = chosen_isa(options.isa)
        self.precision: Precision = options.precision
        self.products: Products = products_here(self._isa)

    def describe(self) -> DeviceInfo:
        """Processor, instruction set, threads and versions; and the precision, where it is not float32."""
        versions = {"jcw-kernels": version("jcw-kernels")}
        if self.precision != "float32":
            versions["precision"] = self.precision
        return DeviceInfo("host", cpu_name(), self._isa, self._options.threads, versions)

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        """Time layers, (rounds, len(problems)) seconds; as many interleaved as fit in memory."""
        seconds = np.full((rounds, len(problems)), np.nan)
        rng = np.random.default_rng(0)
        for chunk in _chunks(problems):
            timers = [self._layer_timer(problems[i], rng) for i in chunk]
            seconds[:, chunk] = _interleaved(timers, rounds)
        return seconds

    def measure_models(self, paths: Sequence[Path], *, rounds: int) -> NDArray[np.float64]:
        """Time whole models, (rounds, len(paths)) seconds, interleaved."""
        programs = [load(path, threads=self._options.threads, isa=self._isa) for path in paths]
        duration = self._options.model_ms / 1e3
        return _interleaved([partial(p.time, seconds=duration) for p in programs], rounds)

    def measure_layers(self, path: Path, *, rounds: int) -> Mapping[str, float]:
        """Median seconds of each layer of a model; see ``jcw_core.protocols.TimesLayers``."""
        seconds: dict[str, float] = {}
        for step in load(path, threads=self._options.threads, isa=self._isa).profile(rounds=rounds):
            seconds[step.layer] = seconds.get(step.layer, 0.0) + step.seconds
        return seconds

    def _layer_timer(self, problem: LayerProblem, rng: np.random.Generator) -> Callable[[], float]:
        file, first = layer_file(problem, rng, self.precision, self.products)
        program = Program(file, threads=self._options.threads, isa=self._isa)
        duration = self._options.layer_ms / 1e3
        return partial(program.time, seconds=duration, first_layer=first)


def _interleaved(timers: Sequence[Callable[[], float]], rounds: int) -> NDArray[np.float64]:
    return np.array([[timer() for timer in timers] for _ in range(rounds)], dtype=np.float64).reshape(
        rounds, -1
    )


def _chunks(problems: Sequence[LayerProblem]) -> Iterator[list[int]]:
    chunk: list[int] = []
    floats = 0
    for i, problem in enumerate(problems):
        size = _floats(problem)
        if chunk and floats + size > _CHUNK_FLOATS:
            yield chunk
            chunk, floats = [], 0
        chunk.append(i)
        floats += size
    if chunk:
        yield chunk


def _floats(problem: LayerProblem) -> int:
    """Rough size of a layer in memory; a huge page is the least."""
    then = _floats(problem.then) if problem.then else 0
    pixels = problem.in_channels * problem.in_height * problem.in_width
    out = problem.out_channels * problem.out_height * problem.out_width
    taps = problem.kernel_size[0] * problem.kernel_size[1] if problem.op in CONVOLUTIONS else 1
    weights = problem.density * problem.in_channels // problem.groups * problem.out_channels * taps
    return int(3 * pixels + 2 * out + 2 * weights) + (1 << 19) + then


def cpu_name() -> str:
    """Model of the processor as the system calls it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

"""What one pass over a layer executes on an emulated core, and what a model of its caches adds.

``arm/count.cpp`` counts, ``arm/memory.hpp`` is the model.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path

from arm_code import Block, Instruction, call, kernel_code, simulated
from arm_cores import Core

from jcw_core.network.problem import LayerProblem

KERNELS = Path(__file__).resolve().parents[1] / "packages" / "jcw-kernels"
# Kernels prefetch past the end of their weights. In one heap, and not in mappings of their own, that can be read.
ALLOCATION = "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.top_pad=1048576"


@dataclass(frozen=True, slots=True)
class Count:
    """What the counting plugin tells of one instruction.

    Args:
        executions: how often it ran.
        second_wait: cycles for lines of the second cache.
        memory_wait: cycles for lines from behind it.
        misses: lines that each cache did not have.
    """

    executions: int
    second_wait: float
    memory_wait: float
    misses: tuple[int, ...]


NEVER = Count(0, 0.0, 0.0, ())


@dataclass(frozen=True, slots=True)
class Programs:
    """``jcw-device`` for ARM whose prefetches can be counted, in the folder where it was built, and the plugin that counts."""

    folder: Path
    device: Path
    plugin: Path

    @classmethod
    def built(cls, folder: Path) -> Programs:
        """Build them in a folder, or update what is there."""
        options = ["-DJCW_PYTHON=OFF", "-DJCW_DEVICE=ON", "-DJCW_COUNT_PREFETCHES=ON"]
        toolchain = KERNELS / "cmake" / "aarch64.cmake"
        call("cmake", "-S", KERNELS, "-B", folder, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", *options)
        call("cmake", "--build", folder, "--parallel", "2")
        plugin = folder / "libcount.so"
        source = Path(__file__).parent / "arm" / "count.cpp"
        call("g++", "-std=c++20", "-O2", "-shared", "-fPIC", source, "-o", plugin)
        return cls(folder, folder / "jcw-device", plugin)


class Emulator:
    """A core that runs the program.

    Args:
        core: the core.
        programs: what it runs.
    """

    def __init__(self, core: Core, programs: Programs) -> None:
        self.core = core
        self._programs = programs
        self._code = kernel_code(programs.folder, programs.device, core)
        self._cycles: dict[int, float] = {}
        """Of the blocks that have run, a small part, by the address of their first instruction."""

    @property
    def blocks(self) -> list[Block]:
        """The kernels' code; those that have not run take no cycles."""
        return [Block(self.core, n, body, self._cycles.get(body[0].address, 0.0)) for n, body in self._code]

    def count(self, problem: LayerProblem, precision: str) -> dict[int, Count]:
        """Counts by address, of one pass over a layer."""
        counts = self._counted(problem, precision)
        ran = [body for _, body in self._code if counts.get(body[0].address, NEVER).executions]
        if new := [body for body in ran if body[0].address not in self._cycles]:
            self._cycles |= simulated(new, self.core)
            # Whether what is prefetched comes in time depends on what is executed until then.
            counts = self._counted(problem, precision)
        return counts

    def _counted(self, problem: LayerProblem, precision: str) -> dict[int, Count]:
        with tempfile.TemporaryDirectory() as name:
            layers, costs, counts = (Path(name) / file for file in ("layers", "costs", "counts"))
            layers.write_text(json.dumps(asdict(problem)) + "\n")
            costs.write_text("".join(f"{i.address:x} {cost:.0f}\n" for i, cost in self._costs()))
            settings = [ALLOCATION, *(f"{key}={value}" for key, value in self.core.environment.items())]
            emulator = [
                "qemu-aarch64",
                "-cpu",
                self.core.emulated,
                *(word for one in settings for word in ("-E", one)),
            ]
            plugin = f"{self._programs.plugin},core={self.core.plugin},costs={costs},out={counts}"
            words = ["layers", layers, "--once", "--precision", precision]
            call(*emulator, "-plugin", plugin, self._programs.device, *words)
            return dict(read_count(line) for line in counts.read_text().splitlines())

    def _costs(self) -> Iterator[tuple[Instruction, float]]:
        """Thousandths of a cycle by instruction; those of a block share alike."""
        for block in self.blocks:
            for instruction in block.body:
                yield instruction, 1e3 * block.cost / len(block.body)


def read_count(line: str) -> tuple[int, Count]:
    """One line of the plugin's file."""
    address, executions, second_wait, memory_wait, *misses = line.split()
    waits = int(second_wait) / 1e3, int(memory_wait) / 1e3
    return int(address, 16), Count(int(executions), *waits, tuple(map(int, misses)))


@dataclass(slots=True)
class Cycles:
    """Where the cycles of one layer go."""

    core: Core
    multiply: float = 0.0
    """Starting multiply-adds."""
    other: float = 0.0
    """All else that issue takes."""
    second_wait: float = 0.0
    memory_wait: float = 0.0
    store_wait: float = 0.0
    mispredicted: float = 0.0
    misses: list[int] = field(default_factory=list)
    """Lines, of each cache."""
    instructions: int = 0
    loops: float = 0.0
    """Issue of the loops that multiply."""
    loop_multiplies: float = 0.0
    busiest: Block | None = None
    """The loop with most of the multiply-adds."""
    most: float = 0.0

    def add(self, block: Block, counts: Sequence[Count]) -> None:
        """Count one block, given what its instructions did."""
        passes = counts[0].executions
        multiplies = passes * block.multiplies
        self.multiply += min(multiplies, passes * block.cost)
        self.other += max(passes * block.cost - multiplies, 0.0)
        self.instructions += passes * len(block.body)
        if block.repeats and multiplies:
            self.loops += passes * block.cost
            self.loop_multiplies += multiplies
            if multiplies > self.most:
                self.most, self.busiest = multiplies, block
        for instruction, count in zip(block.body, counts, strict=True):
            self.add_misses(count, instruction.text.startswith("st"))

    def add_misses(self, count: Count, stores: bool) -> None:
        """Count what one instruction waited."""
        self.misses = [a + b for a, b in zip_longest(self.misses, count.misses, fillvalue=0)]
        if stores:
            self.store_wait += count.second_wait + count.memory_wait
        else:
            self.second_wait += count.second_wait
            self.memory_wait += count.memory_wait

    @property
    def low(self) -> float:
        """Nothing waits, and lines come no faster than they can."""
        transfers = [
            missed * level.line for missed, level in zip(self.misses, self.core.levels[1:], strict=True)
        ]
        return max(self.multiply + self.other, *transfers)

    @property
    def high(self) -> float:
        """Nothing overlaps but what is prefetched."""
        waits = self.second_wait + self.memory_wait + self.store_wait
        return self.multiply + self.other + waits + self.mispredicted


def spent(counts: Mapping[int, Count], emulator: Emulator) -> Cycles:
    """Cycles of the kernels in one pass over a layer."""
    cycles = Cycles(emulator.core)
    blocks = emulator.blocks
    for index, block in enumerate(blocks):
        own = [counts.get(i.address, NEVER) for i in block.body]
        # Copies the random image to where the layer reads it.
        if not own[0].executions or "elementwise" in block.function:
            continue
        cycles.add(block, own)
        if block.repeats and index + 1 < len(blocks):
            left = counts.get(blocks[index + 1].body[0].address, NEVER)
            cycles.mispredicted += emulator.core.mispredicted * left.executions
    return cycles

"""Cores that are modelled: how their emulator and llvm-mca know them, and their caches, as ``arm/memory.hpp`` takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

LINE = 64
"""Bytes of a line of each cache."""


class Level(NamedTuple):
    """A cache, or memory, which has no sets; cycles from load to use, and between two lines that come from there."""

    sets: int
    ways: int
    latency: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Core:
    """One of them.

    Args:
        name: as its maker calls it.
        emulated: as QEMU does.
        scheduled: as llvm-mca does.
        hertz: clock.
        issued: instructions per cycle at most outside loops.
        multiplies: vector multiply-adds that start in a cycle.
        mispredicted: cycles that a mispredicted branch costs, as LLVM has it.
        places: lines that may be on their way to the first cache.
        levels: caches, then memory.
        precisions: that it is modelled with.
        kernels: targets of the build that it can run.
    """

    name: str
    emulated: str
    scheduled: str
    hertz: float
    issued: float
    multiplies: int
    mispredicted: int
    places: int
    levels: tuple[Level, ...]
    precisions: tuple[str, ...]
    kernels: tuple[str, ...]

    @property
    def plugin(self) -> str:
        """What the counting plugin takes."""
        return "/".join([str(self.places), *(":".join(map(str, level)) for level in self.levels)])

    @property
    def environment(self) -> dict[str, str]:
        """What tells the engine of its second cache."""
        return {"JCW_L2": str(self.levels[1].sets * self.levels[1].ways * LINE)}

    def milliseconds(self, cycles: float) -> float:
        """At its clock."""
        return 1e3 * cycles / self.hertz


CORES = {
    # A Raspberry Pi 4. First cache and places: Cortex-A72 TRM 6.4. Second: 21 cycles as others measured it; LMBench reads 1 MB
    # at 15.8 GB/s on a Cortex-A72 at 2 GHz with a larger second cache, and copies it at 9.6 GB/s, 13 cycles a line where two
    # are charged here (TI Processor SDK Linux 11.02, J784S4, bw_mem). Memory: 240 cycles, 160 ns, where random reads of 16 to
    # 128 MB took 153 to 170 ns on that board (sbc-bench); a line every 24 cycles, 4 GB/s, where STREAM's four loops reach 4.8
    # to 5.6 GB/s on one core; with its six places, stores end a line every 40 cycles, memset one every 31 (3.1 GB/s, sbc-bench).
    "cortex-a72": Core(
        "Cortex-A72", "cortex-a72", "cortex-a72", 1.5e9, 1.5, 1, 16, 6,
        (Level(256, 2), Level(1024, 16, 21, 8), Level(0, 0, 240, 24)), ("float32",), ("neon",),
    ),
    # A Raspberry Pi 5. LLVM describes the Neoverse N1, which has the same pipeline. Caches, their latencies and 20 places as
    # WikiChip has them; their interfaces carry a line in two cycles, of which twice (second) and four times as many (third, which
    # has a clock of its own) are charged. Memory: 278 cycles, 116 ns, and a line every 12 cycles, 12.8 GB/s, where that board has
    # 116 to 118 ns, reads 14.9 GB/s (memchr) and copies 6.0 GB/s (sbc-bench 0.9.68).
    "cortex-a76": Core(
        "Cortex-A76", "neoverse-n1", "neoverse-n1", 2.4e9, 2.0, 2, 11, 20,
        (Level(256, 4), Level(1024, 8, 9, 4), Level(2048, 16, 31, 8), Level(0, 0, 278, 12)),
        ("float32", "float16", "int8"), ("neon", "half_neon", "dotprod"),
    ),
}  # fmt: skip

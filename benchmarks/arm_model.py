"""ResNet-18's convolutions on a Cortex-A72, modelled: no ARM machine is timed here.

Each layer runs once, with cold caches, under QEMU. A plugin counts how often every instruction of the ARM build is
executed, and simulates both caches and the way from memory: also what the kernels prefetch, which is on time or
is waited for. llvm-mca says what each basic block takes. A layer lies between

    low  = the larger of issue and of the time in which the lines that miss can be carried
    high = issue + what loads wait that no prefetch covered + stores that find six lines on their way
           + one mispredicted branch for each end of a loop

at 1.5 GHz. At the high end a load that misses stops all else, and the core's own prefetchers do nothing; they and
out-of-order execution are what real time is better by. It may be worse by what is not modelled: TLB misses,
conflicts between physical pages, other cores. Checked on x86-64, llvm-mca was off by up to 30 %, so take it as a
range that indicates. The figures to compare with are measured, and the paper's (``--table``).

    python benchmarks/arm_model.py --out docs/results/arm_model.json

Debian packages: g++-aarch64-linux-gnu, qemu-user, llvm-19, cmake.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from arm_code import Block, call
from arm_count import KERNELS, Emulator, spent
from harness import PAPER_TABLE, Row, command_line, subplots, write

from jcw_core.backbones.resnet import RESNET18
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.problem import LayerProblem

HERTZ = 1.5e9
DENSITIES = (1.0, 0.4, 0.1)
TOOLS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-objdump", "qemu-aarch64", "llvm-mca-19", "cmake", "g++")


def estimate(problem: LayerProblem, emulator: Emulator) -> Row:
    """The range of one layer; what only makes its input is left out."""
    cycles = spent(emulator.count(problem), emulator.blocks)
    return {
        "instructions": cycles.instructions,
        "l1_misses": cycles.first_misses,
        "l2_misses": cycles.second_misses,
        "modelled_low_ms": milliseconds(cycles.low),
        "modelled_high_ms": milliseconds(cycles.high),
        "multiply_ms": milliseconds(cycles.multiply),
        "other_issue_ms": milliseconds(cycles.other),
        "l2_wait_ms": milliseconds(cycles.second_wait),
        "memory_wait_ms": milliseconds(cycles.memory_wait),
        "store_wait_ms": milliseconds(cycles.store_wait),
        "mispredicted_ms": milliseconds(cycles.mispredicted),
        "fmla_share_of_loop_cycles": cycles.loop_multiplies / cycles.loops,
        "busiest_loop": describe(cycles.busiest) if cycles.busiest else None,
    }


def milliseconds(cycles: float) -> float:
    """At the modelled clock."""
    return 1e3 * cycles / HERTZ


def describe(loop: Block) -> Row:
    """What llvm-mca says of a loop."""
    function = call("c++filt", loop.function).strip()
    return {
        "function": function,
        "instructions": len(loop.body),
        "fmla": loop.multiplies,
        "cycles": loop.cycles,
        "fmla_issue": loop.multiplies / loop.cycles,
    }


def convolutions(densities: Sequence[float]) -> Iterator[tuple[int, str, LayerProblem]]:
    """Place in the paper's table, name and problem; as in that table the first convolution is pruned too."""
    network = RESNET18.build()
    units = sorted((u for u in fuse(network) if u.node.op == "conv2d"), key=lambda unit: unit.name)
    for density in densities:
        for index, unit in enumerate(units):
            problem = problem_of(network, unit, density)
            # The paper's layers end at the convolution.
            yield index, unit.name, replace(problem, activation="", residual=False)


def measured(table: Path, index: int, density: float) -> float | None:
    """The paper's milliseconds at full width; None without its table."""
    if not (table / "runtime.npy").is_file():
        return None
    milliseconds = np.load(table / "runtime.npy", allow_pickle=False)
    # The first layer has three input channels; they stand at index 2 of that axis.
    return float(milliseconds[index, 8, 2 if index == 0 else 8, round(10 * density)])


def run(args: argparse.Namespace) -> Iterator[Row]:
    """One row per convolution and density."""
    emulator = Emulator.built(args.build)
    known: dict[LayerProblem, Row] = {}
    for index, layer, problem in convolutions(DENSITIES[-1:] if args.quick else DENSITIES):
        if problem not in known:
            known[problem] = estimate(problem, emulator)
        paper = measured(args.table, index, problem.density)
        yield {"layer": layer, "density": problem.density, **known[problem], "paper_ms": paper}


def totals(rows: Sequence[Row]) -> list[Row]:
    """All convolutions together, by density."""
    found = []
    for density in dict.fromkeys(row["density"] for row in rows):
        own = [row for row in rows if row["density"] == density]
        low, high = (sum(row[key] for row in own) for key in ("modelled_low_ms", "modelled_high_ms"))
        total: Row = {"density": density, "modelled_low_ms": low, "modelled_high_ms": high, "paper_ms": None}
        if all(row["paper_ms"] for row in own):
            paper = sum(row["paper_ms"] for row in own)
            total |= {"paper_ms": paper, "high_over_paper": high / paper}
        found.append(total)
    return found


def draw(rows: Sequence[Row]) -> Any:
    """Modelled ranges and the paper's measurements."""
    densities = list(dict.fromkeys(row["density"] for row in rows))
    figure, axes = subplots(len(densities), 1, 11, 3 * len(densities))
    for axis, density in zip(axes[:, 0], densities, strict=True):
        own = [row for row in rows if row["density"] == density]
        low, high = (np.array([row[key] for row in own]) for key in ("modelled_low_ms", "modelled_high_ms"))
        place = np.arange(len(own))
        axis.bar(place, high - low, 0.6, low, label="modelled range, 1.5 GHz")
        if all(row["paper_ms"] for row in own):
            axis.plot(
                place, [row["paper_ms"] for row in own], "k_", markersize=12, label="measured, the paper"
            )
        axis.set(title=f"density {density}", ylabel="ms", ylim=(0, None))
        axis.set_xticks(place, [row["layer"] for row in own], rotation=60, ha="right", fontsize=7)
    axes[0, 0].legend()
    return figure


def summary(rows: Sequence[Row]) -> str:
    """The totals for people."""
    lines = []
    for total in totals(rows):
        line = f"density {total['density']}: {total['modelled_low_ms']:.0f} to {total['modelled_high_ms']:.0f} ms modelled"
        if total["paper_ms"]:
            line += f", the paper's {total['paper_ms']:.0f} ms; high end {total['high_over_paper']:.2f} of it"
        lines.append(line)
    issue = {row["busiest_loop"]["function"]: row["busiest_loop"] for row in rows if row["busiest_loop"]}
    lines += [f"{loop['fmla_issue']:.1%} FMLA issue: {name}" for name, loop in issue.items()]
    return "\n".join(lines)


def tool_versions() -> dict[str, str]:
    """What compiled the kernels and what modelled their blocks."""
    compiler, *_ = call("aarch64-linux-gnu-g++", "--version").splitlines()
    mca = next(line.strip() for line in call("llvm-mca-19", "--version").splitlines() if "version" in line)
    return {"compiler": compiler, "llvm-mca": mca}


def main() -> None:
    """Parse the command line and run."""
    parser = command_line(__doc__, quick="one density")
    parser.add_argument("--table", type=Path, default=PAPER_TABLE, help="folder of the paper's table")
    parser.add_argument(
        "--build", type=Path, default=KERNELS / "build" / "aarch64-counted", help="where the program is built"
    )
    args = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        sys.exit(f"error: not installed: {', '.join(missing)}; see the top of {Path(__file__).name}")
    rows = list(run(args))
    print(summary(rows))
    if args.out:
        machine = {"cpu": "Cortex-A72, modelled", "gigahertz": HERTZ / 1e9, "isa": "neon"}
        results = {"machine": machine, "versions": tool_versions(), "rows": rows, "totals": totals(rows)}
        write(args.out, results, draw(rows))


if __name__ == "__main__":
    main()

"""ResNet-18's convolutions on a Cortex-A72 and a Cortex-A76, modelled: no ARM machine is timed here.

Each layer runs once, with cold caches, under QEMU. A plugin counts how often every instruction of the ARM build is
executed, and simulates the caches and the way from memory: also what the kernels prefetch, which is on time or
is waited for. llvm-mca says what each basic block takes. A layer of int8 begins with the rounding of its inputs, which in a
network the layer before it does as it goes. A layer lies between

    low  = the larger of issue and of the time in which the lines that miss can be carried
    high = issue + what loads wait that no prefetch covered + stores that find as many lines on their way as there may be
           + one mispredicted branch for each end of a loop

At the high end a load that misses stops all else, and the core's own prefetchers do nothing; they and
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
from arm_cores import CORES
from arm_count import KERNELS, Emulator, Programs, spent
from harness import PAPER_TABLE, Row, command_line, subplots, write

from jcw_core.backbones.resnet import RESNET18
from jcw_core.network.layers import fuse, problem_of
from jcw_core.network.problem import LayerProblem

DENSITIES = (1.0, 0.4, 0.2, 0.1)
QUICK_LAYERS = 5
TOOLS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-objdump", "qemu-aarch64", "llvm-mca-19", "cmake", "g++")


def estimate(problem: LayerProblem, emulator: Emulator, precision: str) -> Row:
    """The range of one layer; what only makes its input is left out."""
    cycles, milliseconds = spent(emulator.count(problem, precision), emulator), emulator.core.milliseconds
    return {
        "instructions": cycles.instructions,
        "misses": cycles.misses,
        "modelled_low_ms": milliseconds(cycles.low),
        "modelled_high_ms": milliseconds(cycles.high),
        "multiply_ms": milliseconds(cycles.multiply),
        "other_issue_ms": milliseconds(cycles.other),
        "l2_wait_ms": milliseconds(cycles.second_wait),
        "memory_wait_ms": milliseconds(cycles.memory_wait),
        "store_wait_ms": milliseconds(cycles.store_wait),
        "mispredicted_ms": milliseconds(cycles.mispredicted),
        "multiply_share_of_loop_cycles": cycles.loop_multiplies / cycles.loops,
        "busiest_loop": describe(cycles.busiest) if cycles.busiest else None,
    }


def describe(loop: Block) -> Row:
    """What llvm-mca says of a loop."""
    function = call("c++filt", loop.function).strip()
    return {
        "function": function,
        "instructions": len(loop.body),
        "cycles": loop.cycles,
        "multiply_issue": loop.multiplies / loop.cycles,
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
    """One row per core, precision, density and convolution."""
    programs = Programs.built(args.build)
    for core in map(CORES.__getitem__, args.cores):
        emulator = Emulator(core, programs)
        for precision in core.precisions:
            yield from rows_of(emulator, precision, args)


def rows_of(emulator: Emulator, precision: str, args: argparse.Namespace) -> Iterator[Row]:
    """The rows of one core and precision."""
    known: dict[LayerProblem, Row] = {}
    chosen = list(convolutions(DENSITIES))
    for index, layer, problem in chosen[-QUICK_LAYERS:] if args.quick else chosen:
        if problem not in known:
            known[problem] = estimate(problem, emulator, precision)
        core = emulator.core
        paper = measured(args.table, index, problem.density) if core is CORES["cortex-a72"] else None
        about = {"core": core.name, "precision": precision, "layer": layer, "density": problem.density}
        yield about | known[problem] | {"paper_ms": paper}


def totals(rows: Sequence[Row]) -> list[Row]:
    """All convolutions together, by core, precision and density; how much faster than float32 at both ends of the ranges."""
    found: list[Row] = []
    for key in dict.fromkeys(map(_part, rows)):
        own = [row for row in rows if _part(row) == key]
        low, high = (sum(row[end] for row in own) for end in ("modelled_low_ms", "modelled_high_ms"))
        core, precision, density = key
        total: Row = {"core": core, "precision": precision, "density": density}
        total |= {"modelled_low_ms": low, "modelled_high_ms": high}
        if all(row["paper_ms"] for row in own):
            paper = sum(row["paper_ms"] for row in own)
            total |= {"paper_ms": paper, "high_over_paper": high / paper}
        for other in found:
            if _part(other) == (core, "float32", density):
                ends = ("modelled_low_ms", "modelled_high_ms")
                total["speedups_over_float32"] = [other[end] / total[end] for end in ends]
        found.append(total)
    return found


def _part(row: Row) -> tuple[str, str, float]:
    return row["core"], row["precision"], row["density"]


def draw(rows: Sequence[Row]) -> Any:
    """Modelled ranges and the paper's measurements."""
    cores, densities = (list(dict.fromkeys(row[key] for row in rows)) for key in ("core", "density"))
    figure, axes = subplots(len(densities), len(cores), 9 * len(cores), 3 * len(densities))
    for place in np.ndindex(axes.shape):
        density, core = densities[place[0]], cores[place[1]]
        draw_ranges(axes[place], [row for row in rows if (row["core"], row["density"]) == (core, density)])
        axes[place].set(title=f"{core}, density {density}", ylabel="ms", ylim=(0, None))
    labelled: dict[str, Any] = {}
    for axis in axes[0]:
        handles, labels = axis.get_legend_handles_labels()
        labelled |= dict(zip(labels, handles, strict=True))
    figure.legend(labelled.values(), labelled, loc="outside lower center", ncols=len(labelled))
    return figure


def draw_ranges(axis: Any, rows: Sequence[Row]) -> None:
    """A bar for each layer and precision."""
    precisions = list(dict.fromkeys(row["precision"] for row in rows))
    width = 0.8 / len(precisions)
    for number, precision in enumerate(precisions):
        own = [row for row in rows if row["precision"] == precision]
        low, high = (np.array([row[key] for row in own]) for key in ("modelled_low_ms", "modelled_high_ms"))
        place = np.arange(len(own)) + width * (number - (len(precisions) - 1) / 2)
        axis.bar(place, high - low, 0.9 * width, low, label=f"modelled range, {precision}")
        if all(row["paper_ms"] for row in own):
            paper = [row["paper_ms"] for row in own]
            axis.plot(place, paper, "k_", markersize=12, label="measured, the paper")
    axis.set_xticks(np.arange(len(own)), [row["layer"] for row in own], rotation=60, ha="right", fontsize=7)


def summary(rows: Sequence[Row]) -> str:
    """The totals as a table."""
    lines = [
        "| core | precision | density | modelled ms | the paper's ms | ratio | times as fast as float32 |",
        "|---|---|---|---|---|---|---|",
    ]
    for total in totals(rows):
        low, high = total["modelled_low_ms"], total["modelled_high_ms"]
        paper = f"{total['paper_ms']:.0f} | {total['high_over_paper']:.2f}" if "paper_ms" in total else "|"
        faster = " to ".join(f"{ratio:.2f}" for ratio in sorted(total.get("speedups_over_float32", [])))
        lines.append(
            f"| {total['core']} | {total['precision']} | {total['density']:.0%} | {low:.1f} to {high:.1f} | {paper} | {faster} |"
        )
    return "\n".join(lines)


def issue(rows: Sequence[Row]) -> str:
    """How much of what a core can multiply its busiest loops do."""
    loops = [(row["core"], row["busiest_loop"]) for row in rows if row["busiest_loop"]]
    shares = {f"{core}: {loop['function']}": loop["multiply_issue"] for core, loop in loops}
    return "\n".join(f"{share:.1%} of the multiply-adds that issue: {name}" for name, share in shares.items())


def tool_versions() -> dict[str, str]:
    """What compiled the kernels and what modelled their blocks."""
    compiler, *_ = call("aarch64-linux-gnu-g++", "--version").splitlines()
    mca = next(line.strip() for line in call("llvm-mca-19", "--version").splitlines() if "version" in line)
    return {"compiler": compiler, "llvm-mca": mca}


def main() -> None:
    """Parse the command line and run."""
    parser = command_line(__doc__, quick=f"the last {QUICK_LAYERS} convolutions at one density")
    parser.add_argument("--cores", nargs="+", default=list(CORES), choices=list(CORES))
    parser.add_argument("--table", type=Path, default=PAPER_TABLE, help="folder of the paper's table")
    parser.add_argument(
        "--build", type=Path, default=KERNELS / "build" / "aarch64-counted", help="where the program is built"
    )
    args = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        sys.exit(f"error: not installed: {', '.join(missing)}; see the top of {Path(__file__).name}")
    rows = list(run(args))
    print(summary(rows), issue(rows), sep="\n\n")
    if args.out:
        cores = [CORES[name] for name in args.cores]
        machine = {"cpu": f"{' and '.join(core.name for core in cores)}, modelled", "isa": "neon"}
        machine |= {"gigahertz": {core.name: core.hertz / 1e9 for core in cores}}
        results = {"machine": machine, "versions": tool_versions(), "rows": rows, "totals": totals(rows)}
        write(args.out, results, draw(rows))


if __name__ == "__main__":
    main()

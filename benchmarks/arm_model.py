"""ResNet-18's convolutions on a Cortex-A72, modelled: no ARM machine is timed here.

Each layer runs once under QEMU, which counts how often every instruction of the ARM build is executed and how
often its data misses a simulated first cache. llvm-mca says what an iteration of each multiply-accumulate loop
takes. A layer lies between

    low  = iterations x cycles of llvm-mca + other instructions / 1.5
    high = low + misses of the first cache x latency of the second

at 1.5 GHz. The high end ignores all prefetching, which the loops do for nearly all of their misses. Checked on x86-64, llvm-mca was off by up to 30 %, so take it as a range that indicates. The figures to
compare with are measured, and the paper's (``--table``).

    python benchmarks/arm_model.py --out docs/results/arm_model.json

Debian packages: g++-aarch64-linux-gnu, qemu-user, llvm-19, cmake.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from jcw_core.backbones.resnet import RESNET18
from jcw_core.files import write_json
from jcw_core.fusion import fuse, problem_of
from jcw_core.problem import LayerProblem

Row = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "packages" / "jcw-kernels"
TABLE = ROOT.parent / "shared/reference/cortex-a72-resnet18"

HERTZ = 1.5e9
PER_CYCLE = 1.5
"""Instructions per cycle outside the multiply-accumulate loops; the core decodes three."""
L2_CYCLES = 21
"""Load-to-use latency of the second cache, as others measured it on Cortex-A72."""
DENSITIES = (1.0, 0.4, 0.1)
TOOLS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-objdump", "qemu-aarch64", "llvm-mca-19", "cmake", "g++")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a disassembly; ``target`` is the address that a branch names."""

    address: int
    text: str
    target: int | None


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop with fused multiply-adds, first to last instruction."""

    function: str
    body: tuple[Instruction, ...]

    @property
    def multiplies(self) -> int:
        """Vector multiply-adds in one iteration; the core starts one per cycle."""
        return sum(i.text.startswith("fmla") for i in self.body)


def build(folder: Path) -> tuple[Path, Path]:
    """``jcw-device`` for ARM and the counting plugin for this machine."""
    toolchain = KERNELS / "cmake" / "aarch64.cmake"
    options = [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DJCW_PYTHON=OFF", "-DJCW_DEVICE=ON"]
    call("cmake", "-S", KERNELS, "-B", folder, *options)
    call("cmake", "--build", folder, "--parallel", "2")
    plugin = folder / "libcount.so"
    source = Path(__file__).parent / "arm" / "count.cpp"
    call("g++", "-std=c++20", "-O2", "-shared", "-fPIC", source, "-o", plugin)
    return folder / "jcw-device", plugin


def call(*command: object) -> str:
    """Standard output of a command; exits with what it said when it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {command[0]} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def kernel_functions(folder: Path, program: Path) -> dict[str, list[Instruction]]:
    """Disassembly of every function that comes from the NEON kernels, by name."""
    objects = sorted(folder.glob("CMakeFiles/jcw_neon.dir/**/*.o"))
    ours = {line.split()[-1] for line in call("nm", *objects).splitlines() if " t " in line.lower()}
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] | None = None
    for line in call("aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", program).splitlines():
        if header := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            # The scalar kernels have the same names: they are other list entries, and never executed.
            current = functions.setdefault(header[1], []) if header[1] in ours else None
        elif current is not None and (found := re.match(r"\s+([0-9a-f]+):\t(.*)", line)):
            text = found[2].split("//")[0].strip()
            branch = re.search(r"\b([0-9a-f]{5,}) <", text)
            current.append(Instruction(int(found[1], 16), text, int(branch[1], 16) if branch else None))
    return functions


def loops_of(name: str, code: Sequence[Instruction]) -> Iterator[Loop]:
    """Innermost loops: from a branch's target up to the branch."""
    places = {instruction.address: index for index, instruction in enumerate(code)}
    spans = [
        (places[i.target], end)
        for end, i in enumerate(code)
        if i.target is not None and places.get(i.target, end + 1) <= end and not i.text.startswith("bl")
    ]
    spans = [s for s in spans if any(i.text.startswith("fmla") for i in code[s[0] : s[1] + 1])]
    for first, last in spans:
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in spans):
            yield Loop(name, tuple(code[first : last + 1]))


@cache
def cycles_of(loop: Loop) -> float:
    """Cycles of one iteration on a Cortex-A72 according to llvm-mca."""
    lines = ["loop:"] + [re.sub(r"\b[0-9a-f]{5,} <.*", "loop", i.text) for i in loop.body]
    command = ["llvm-mca-19", "-mtriple=aarch64", "-mcpu=cortex-a72", "-iterations=200"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    assert found is not None
    return int(found[1]) / 200


def count(problem: LayerProblem, program: Path, plugin: Path) -> dict[int, tuple[int, int]]:
    """Executions and first-cache misses by address, of one pass over a layer."""
    with tempfile.TemporaryDirectory() as name:
        layers, counts = Path(name) / "layers", Path(name) / "counts"
        layers.write_text(json.dumps(asdict(problem)) + "\n")
        emulator = ["qemu-aarch64", "-cpu", "cortex-a72", "-plugin", f"{plugin},out={counts}"]
        call(*emulator, program, "layers", layers, "--once")
        rows = (line.split() for line in counts.read_text().splitlines())
        return {int(address, 16): (int(executed), int(missed)) for address, executed, missed in rows}


def estimate(problem: LayerProblem, program: Path, plugin: Path, functions: Mapping[str, Any]) -> Row:
    """The range of one layer; what only makes its input is left out."""
    counts = count(problem, program, plugin)
    executed = misses = inside = prefetched = 0
    cycles, loops = 0.0, list[tuple[int, Loop]]()
    for name, code in functions.items():
        # Copies the random image to where the layer reads it.
        if "elementwise" in name or not any(i.address in counts for i in code):
            continue
        executed += sum(counts.get(i.address, (0, 0))[0] for i in code)
        misses += sum(counts.get(i.address, (0, 0))[1] for i in code)
        for loop in loops_of(name, code):
            iterations = counts.get(loop.body[-1].address, (0, 0))[0]
            if iterations:
                inside += iterations * len(loop.body)
                prefetched += sum(counts.get(i.address, (0, 0))[1] for i in loop.body)
                cycles += iterations * cycles_of(loop)
                loops.append((iterations, loop))
    low = cycles + (executed - inside) / PER_CYCLE
    share = sum(n * loop.multiplies for n, loop in loops) / cycles if cycles else 0.0
    return {
        "instructions": executed,
        "l1_misses": misses,
        "l1_misses_in_loops_that_prefetch": prefetched,
        "fmla_share_of_loop_cycles": share,
        "modelled_low_ms": 1e3 * low / HERTZ,
        "modelled_high_ms": 1e3 * (low + misses * L2_CYCLES) / HERTZ,
        "busiest_loop": describe(max(loops, key=lambda pair: pair[0] * pair[1].multiplies)[1])
        if loops
        else None,
    }


def describe(loop: Loop) -> Row:
    """What llvm-mca says of a loop."""
    function = call("c++filt", loop.function).strip()
    return {
        "function": function,
        "instructions": len(loop.body),
        "fmla": loop.multiplies,
        "cycles": cycles_of(loop),
        "fmla_issue": loop.multiplies / cycles_of(loop),
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
    program, plugin = build(args.build)
    functions = kernel_functions(args.build, program)
    known: dict[LayerProblem, Row] = {}
    for index, layer, problem in convolutions(DENSITIES[-1:] if args.quick else DENSITIES):
        if problem not in known:
            known[problem] = estimate(problem, program, plugin, functions)
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


def draw(rows: Sequence[Row], path: Path) -> None:
    """Modelled ranges and the paper's measurements, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    densities = list(dict.fromkeys(row["density"] for row in rows))
    figure, axes = pyplot.subplots(len(densities), 1, figsize=(11, 3 * len(densities)), layout="constrained")
    for axis, density in zip(np.atleast_1d(axes), densities, strict=True):
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
    np.atleast_1d(axes)[0].legend()
    figure.savefig(path, dpi=110)


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


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", type=Path, default=TABLE, help="folder of the paper's table")
    parser.add_argument(
        "--build", type=Path, default=KERNELS / "build" / "aarch64", help="where jcw-device is built"
    )
    parser.add_argument("--out", type=Path, help="JSON file; a plot goes beside it")
    parser.add_argument("--quick", action="store_true", help="one density")
    args = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        sys.exit(f"error: not installed: {', '.join(missing)}; see the top of {Path(__file__).name}")
    rows = list(run(args))
    print(summary(rows))
    if args.out:
        compiler = call("aarch64-linux-gnu-g++", "--version").splitlines()[0]
        mca = next(
            line.strip() for line in call("llvm-mca-19", "--version").splitlines() if "version" in line
        )
        machine = {"cpu": "Cortex-A72, modelled", "gigahertz": HERTZ / 1e9, "isa": "neon"}
        versions = {"compiler": compiler, "llvm-mca": mca}
        write_json(args.out, {"machine": machine, "versions": versions, "rows": rows, "totals": totals(rows)})
        draw(rows, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()

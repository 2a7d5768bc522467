"""What the ARM kernels' code costs on a core, block by block, according to llvm-mca."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arm_cores import Core

ROUNDS = 200
"""How often llvm-mca repeats a block."""
MULTIPLIES = ("fmla", "sdot")
BRANCH = re.compile(r"(b|b\.\w+|cbn?z|tbn?z|br|ret)\b")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a disassembly; ``target`` is the address that a branch names."""

    address: int
    text: str
    target: int | None

    @property
    def branches(self) -> bool:
        """Whether a block ends here; calls come back."""
        return BRANCH.match(self.text) is not None


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions that are executed together, and the cycles that they take on a core when they are repeated."""

    core: Core
    function: str
    body: tuple[Instruction, ...]
    cycles: float

    @property
    def multiplies(self) -> float:
        """Cycles in which the core starts the vector multiply-adds."""
        return sum(i.text.startswith(MULTIPLIES) for i in self.body) / self.core.multiplies

    @property
    def repeats(self) -> bool:
        """Whether it is a loop of its own."""
        return self.body[-1].target == self.body[0].address

    @property
    def cost(self) -> float:
        """Cycles of one pass; outside loops nothing is known of what stands before and behind it."""
        return self.cycles if self.repeats else max(self.cycles, len(self.body) / self.core.issued)


def call(*command: object, stdin: str | None = None) -> str:
    """Standard output of a command; exits with what it said when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, input=stdin)
    if done.returncode:
        sys.exit(f"error: {command[0]} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def kernel_code(folder: Path, program: Path, core: Core) -> list[tuple[str, tuple[Instruction, ...]]]:
    """Function and instructions of every block of what comes from the ARM kernels, in order."""
    functions = kernel_functions(folder, program, core)
    return [(name, body) for name, code in functions.items() for body in split(code)]


def kernel_functions(folder: Path, program: Path, core: Core) -> dict[str, list[Instruction]]:
    """Disassembly of every function that comes from the kernels that a core runs, by name."""
    objects = [
        file for kernels in core.kernels for file in folder.glob(f"CMakeFiles/jcw_{kernels}.dir/**/*.o")
    ]
    # The scalar kernels have the same names, but not the same sizes.
    ours = {tuple(symbol) for _, *symbol in sized_symbols(*objects)}
    begins = {int(address, 16) for address, *symbol in sized_symbols(program) if tuple(symbol) in ours}
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] | None = None
    for line in call("aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", program).splitlines():
        if header := re.match(r"([0-9a-f]+) <(.+)>:$", line):
            current = functions.setdefault(header[2], []) if int(header[1], 16) in begins else None
        elif current is not None and (found := re.match(r"\s+([0-9a-f]+):\t(.*)", line)):
            text = found[2].split("//")[0].strip()
            branch = re.search(r"\b([0-9a-f]{5,}) <", text) if BRANCH.match(text) else None
            current.append(Instruction(int(found[1], 16), text, int(branch[1], 16) if branch else None))
    return functions


def sized_symbols(*files: Path) -> Iterator[list[str]]:
    """Address, size, type and name of each symbol that has them all."""
    lines = (line.split() for line in call("nm", "-S", *files).splitlines())
    return (line for line in lines if len(line) == 4)


def split(code: Sequence[Instruction]) -> Iterator[tuple[Instruction, ...]]:
    """Basic blocks: they begin where a branch leads to, and end with one."""
    targets = {instruction.target for instruction in code}
    block: list[Instruction] = []
    for instruction in code:
        if block and instruction.address in targets:
            yield tuple(block)
            block = []
        block.append(instruction)
        if instruction.branches:
            yield tuple(block)
            block = []
    if block:
        yield tuple(block)


def simulated(bodies: Sequence[Sequence[Instruction]], core: Core) -> Mapping[int, float]:
    """Cycles of one pass when each block is repeated, by the address of the first instruction."""
    lines = ["elsewhere:"]
    for body in bodies:
        lines.append(f"# LLVM-MCA-BEGIN {body[0].address}")
        lines += [re.sub(r"\b[0-9a-f]{5,} <.*", "elsewhere", i.text) for i in body]
        lines.append("# LLVM-MCA-END")
    options = ["-mtriple=aarch64", f"-mcpu={core.scheduled}", f"-iterations={ROUNDS}", "-instruction-info=0"]
    report = call("llvm-mca-19", *options, "-resource-pressure=0", stdin="\n".join(lines) + "\n")
    found = re.findall(
        r"Code Region - (\d+)\n\nIterations:.*\nInstructions:.*\nTotal Cycles:\s+(\d+)", report
    )
    return {int(address): int(cycles) / ROUNDS for address, cycles in found}

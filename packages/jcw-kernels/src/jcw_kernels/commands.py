"""``jcw kernels``: where a model's time goes, and what this machine offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from jcw_core.cli.text import as_json_object, echo, echo_json
from jcw_core.protocols import Precision
from jcw_kernels.program import StepTime


@click.group()
def kernels() -> None:
    """The sparse engine on this machine."""


@kernels.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(1, 256), help="Threads per image."
)
@click.option("--isa", default="", help="Instruction set: scalar, avx2, avx512 or neon.")
@click.option("--rounds", default=30, show_default=True, type=click.IntRange(1), help="Runs to average over.")
@as_json_object
def profile(model: Path, threads: int, isa: str, rounds: int, as_json: bool) -> None:
    """Time every layer of MODEL, a model.jcw, and say what limits it."""
    from jcw_kernels._engine import copy_gbytes
    from jcw_kernels.peak import peak_gflops
    from jcw_kernels.program import load

    program = load(model, threads=threads, isa=isa)
    bandwidth, steps = copy_gbytes(), program.profile(rounds=rounds)
    peaks = {p: peak_gflops(isa, p) * threads for p in sorted({step.precision for step in steps})}
    if as_json:
        machine = {"isa": program.isa, "precision": program.precision, "threads": threads}
        rates = {"peak_gflops": peaks, "memory_gbytes": bandwidth, "memory_bytes": program.memory_bytes}
        echo_json([{**machine, **rates, "steps": [asdict(s) for s in steps]}])
        return
    echo(
        f"{model}: {program.precision}, {program.isa}, {threads} threads, {program.memory_bytes / 1e6:.1f} MB of activations"
    )
    loops = ", ".join(f"{rate:.0f} GFLOP/s in {precision}" for precision, rate in peaks.items())
    click.echo(f"tile loop {loops}, memory {bandwidth:.0f} GB/s")
    _print_steps(steps, peaks, bandwidth)


def _print_steps(steps: Sequence[StepTime], peaks: Mapping[Precision, float], bandwidth: float) -> None:
    from rich.table import Table

    from jcw_core.cli.text import print_table

    total = sum(step.seconds for step in steps)
    table = Table(box=None)
    for head in ("layer", "kernel", "precision", "density", "ms", "share", "GFLOP/s", "GB/s", "limit"):
        table.add_column(head, overflow="fold")
    for step in steps:
        table.add_row(
            step.layer,
            step.kernel,
            step.precision,
            f"{step.density:.2f}",
            f"{step.seconds * 1e3:.3f}",
            f"{step.seconds / total:.1%}",
            f"{step.gflops:.0f}" if step.macs else "",
            f"{step.bytes / step.seconds / 1e9:.0f}",
            "memory" if step.bytes / bandwidth > 2 * step.macs / peaks[step.precision] else "arithmetic",
        )
    table.add_row("total", "", "", "", f"{total * 1e3:.3f}")
    print_table(table)


@kernels.command()
@as_json_object
def info(as_json: bool) -> None:
    """The processor, its instruction sets and their rate."""
    from jcw_kernels._engine import available_isas, chosen_isa
    from jcw_kernels.host import cpu_name
    from jcw_kernels.peak import peak_gflops

    if as_json:
        rates = {isa: peak_gflops(isa) for isa in available_isas()}
        echo_json([{"processor": cpu_name(), "isa": chosen_isa(), "peak_gflops": rates}])
        return
    click.echo(f"processor: {cpu_name()}")
    for isa in available_isas():
        chosen = "  (in use)" if isa == chosen_isa() else ""
        click.echo(f"{isa:8} {peak_gflops(isa):6.0f} GFLOP/s in the tile loop{chosen}")

"""How much faster networks run on several threads: the engine of this project with one thread and with more.

Both programs of a network are timed in turn, so that the machine's speed drops out of their ratio. Nothing is pinned.
``--busy 1`` has another process take one core's time meanwhile: threads that wait for it must not cost much more
than one thread does.

    python benchmarks/threads.py --out docs/results/threads.json
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from harness import Row, command_line, machine, subplots, versions, write
from pruned_models import BACKBONES, DENSITIES, pruned_model

from jcw_kernels import chosen_isa, compile_model


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """A row per network and density."""
    for name in args.networks:
        network = BACKBONES[name].build(input_size=args.input_size)
        for density in DENSITIES:
            model = pruned_model(network, density, np.random.default_rng(0))
            programs = [compile_model(model, threads=threads) for threads in (1, args.threads)]
            seconds = np.array(
                [[p.time(seconds=args.visit_ms / 1e3) for p in programs] for _ in range(args.rounds)]
            )
            one, several = 1e3 * np.median(seconds, axis=0)
            ratios = seconds[:, 0] / seconds[:, 1]
            yield {
                "network": name,
                "density": density,
                "threads": args.threads,
                "one_ms": float(one),
                "median_ms": float(several),
                "min_ms": float(1e3 * seconds[:, 1].min()),
                "max_ms": float(1e3 * seconds[:, 1].max()),
                "speedup": float(np.median(ratios)),
                "speedup_quartiles": [float(q) for q in np.quantile(ratios, [0.25, 0.75])],
            }


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many other processes that never rest."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def summary(rows: list[Row]) -> str:
    """A line for each row."""
    return "\n".join(
        f"{r['network']:14}{r['density']:5.1f}  {r['one_ms']:7.2f} ms on one thread, {r['median_ms']:7.2f} on "
        f"{r['threads']}: {r['speedup']:.2f} times as fast"
        for r in rows
    )


def draw(rows: list[Row]) -> Any:
    """Speedups with their quartiles."""
    figure, [[axis]] = subplots(1, 1, 9.5, 3.5)
    speedup = np.array([r["speedup"] for r in rows])
    low, high = np.array([r["speedup_quartiles"] for r in rows]).T
    axis.bar(
        [f"{r['network']}\n{r['density']}" for r in rows],
        speedup,
        yerr=[speedup - low, high - speedup],
        capsize=2,
    )
    axis.axhline(rows[0]["threads"], linewidth=0.8, color="grey")
    axis.set(ylabel=f"speedup on {rows[0]['threads']} threads")
    axis.tick_params(axis="x", labelsize=7)
    return figure


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__, quick="one network, small, three short rounds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--busy", type=int, default=0, help="other processes that take a core's time")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--visit-ms", type=float, default=50.0, help="how long a visit repeats a model")
    parser.add_argument("--networks", nargs="+", choices=BACKBONES, default=list(BACKBONES))
    parser.add_argument("--input-size", type=int, default=224)
    args = parser.parse_args()
    if args.quick:
        args.networks, args.input_size, args.rounds, args.visit_ms = args.networks[:1], 64, 3, 2.0
    with busy_processes(args.busy):
        rows = [row | {"busy": args.busy} for row in measure(args)]
    print(summary(rows))
    if args.out:
        results = {"machine": machine(isa=chosen_isa()), "versions": versions("jcw-kernels"), "rows": rows}
        write(args.out, results, draw(rows))


if __name__ == "__main__":
    main()

"""Single layers: GFLOP/s on the work that is left, per shape, density and instruction set.

Beside each rate stands its share of what the tile loop reaches with its data in L1 cache, measured in the same
rounds. Rates of Winograd's form (kernel ``winograd``) are those of the direct form in the same time: it multiplies
4/9 as often and adds transforms, so its share may exceed one. One thread, pinned; all layers of an instruction set are visited once per round.

    python benchmarks/layers.py --out docs/results/layers.json
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Row, command_line, machine, subplots, system, versions, write

from jcw_core.network.problem import LayerProblem
from jcw_kernels import Program, available_isas, peak_gflops
from jcw_kernels.layer_program import layer_file

DENSITIES = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1)
WINDOWS = [(56, 64, 64, 1), (28, 128, 128, 1), (14, 256, 256, 1), (7, 512, 512, 1)]
STRIDED = [(56, 64, 128, 2), (28, 128, 256, 2), (14, 256, 512, 2)]
POINTWISE = [
    (112, 64, 64, 1),
    (56, 128, 128, 1),
    (28, 256, 256, 1),
    (14, 512, 512, 1),
    (7, 1024, 1024, 1),
    (14, 384, 64, 1),
    (14, 64, 384, 1),
]
DEPTHWISE = [(112, 32, 32, 1), (56, 128, 128, 1), (14, 512, 512, 1), (112, 64, 64, 2), (28, 256, 256, 2)]


def layers() -> list[LayerProblem]:
    """Every layer that is timed."""
    return [
        *(problem(3, *shape, density) for shape in WINDOWS + STRIDED for density in DENSITIES),
        *(problem(1, *shape, density) for shape in POINTWISE for density in DENSITIES),
        *(problem(3, *shape, 1.0, groups=shape[1]) for shape in DEPTHWISE),
    ]


def problem(
    kernel: int, size: int, inputs: int, outputs: int, stride: int, density: float, groups: int = 1
) -> LayerProblem:
    """A convolution with a ReLU on square planes, padded to keep their size."""
    window = {"kernel_size": (kernel,) * 2, "stride": (stride,) * 2, "padding": (kernel // 2,) * 2}
    return LayerProblem(
        "conv2d", inputs, size, size, outputs, **window, groups=groups, density=density, activation="relu"
    )


def measure(isa: str, rounds: int, visit: float) -> list[Row]:
    """The rows of one instruction set."""
    rng = np.random.default_rng(0)
    problems = layers()
    programs = []
    for one in problems:
        file, first = layer_file(one, rng)
        programs.append((Program(file, isa=isa), first))
    peaks, seconds = [], []
    for _ in range(rounds):
        peaks.append(peak_gflops(isa))
        seconds.append([program.time(seconds=visit, first_layer=first) for program, first in programs])
    peak, times = max(peaks), np.array(seconds)
    return [
        row(one, program, isa, peak, times[:, i])
        for i, (one, (program, _)) in enumerate(zip(problems, programs, strict=True))
    ]


def row(one: LayerProblem, program: Program, isa: str, peak: float, times: Any) -> Row:
    """One layer's rate; ``kernel`` says whether sparse, dense or Winograd's code was chosen."""
    step = program.profile(rounds=1)[-1]
    rate = 2e-9 * step.macs / np.median(times)
    return {
        "layer": "depthwise" if one.is_depthwise else f"{one.kernel_size[0]} x {one.kernel_size[1]}",
        "size": one.in_height,
        "in_channels": one.in_channels,
        "out_channels": one.out_channels,
        "stride": one.stride[0],
        "density": one.density,
        "isa": isa,
        "kernel": step.kernel,
        "median_us": float(np.median(times) * 1e6),
        "min_us": float(times.min() * 1e6),
        "max_us": float(times.max() * 1e6),
        "gflops": float(rate),
        "peak_gflops": peak,
        "share_of_peak": float(rate / peak),
    }


def summary(rows: Sequence[Row]) -> str:
    """A table for people: one line per layer shape, one column per density."""
    lines: dict[tuple[Any, ...], list[str]] = {}
    for r in rows:
        key = (r["isa"], r["layer"], r["size"], r["in_channels"], r["out_channels"], r["stride"])
        lines.setdefault(key, []).append(f"{r['density']}: {r['gflops']:4.0f} ({r['share_of_peak']:4.0%})")
    return "\n".join(" ".join(map(str, key)).ljust(36) + "  ".join(cells) for key, cells in lines.items())


def draw(rows: Sequence[Row]) -> Any:
    """Share of the tile loop's rate over density: of each kind of layer all sizes as a band, with their median."""
    isas = list(dict.fromkeys(r["isa"] for r in rows))
    figure, axes = subplots(1, len(isas), 4 * len(isas), 4, sharey=True)
    kinds = dict.fromkeys((r["layer"], r["stride"]) for r in rows if r["layer"] != "depthwise")
    for axis, isa in zip(axes[0], isas, strict=True):
        for colour, kind in enumerate(kinds):
            own = [r for r in rows if r["isa"] == isa and (r["layer"], r["stride"]) == kind]
            densities = sorted({r["density"] for r in own})
            shares = [[r["share_of_peak"] for r in own if r["density"] == d] for d in densities]
            low, middle, high = np.array([np.quantile(share, [0, 0.5, 1]) for share in shares]).T
            axis.fill_between(densities, low, high, color=f"C{colour}", alpha=0.2, linewidth=0)
            axis.plot(densities, middle, f"C{colour}o-", markersize=3, label=f"{kind[0]}, stride {kind[1]}")
        axis.axhline(1, linewidth=0.8, color="grey")
        axis.set(title=isa, xlabel="density", ylabel="share of the tile loop's rate", ylim=(0, 2))
        axis.label_outer()
    axes[0, 0].legend(fontsize=8, loc="upper left")
    return figure


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__, quick="two short rounds")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--visit-ms", type=float, default=10.0, help="how long a visit repeats a layer")
    parser.add_argument("--isas", nargs="+", choices=available_isas(), default=available_isas())
    parser.add_argument("--core", type=int, default=0, help="pin to this core")
    args = parser.parse_args()
    os.sched_setaffinity(0, {args.core})
    rounds, visit = (2, 1e-4) if args.quick else (args.rounds, args.visit_ms / 1e3)
    rows = [found for isa in args.isas for found in measure(isa, rounds, visit)]
    print(summary(rows))
    if args.out:
        results = {"machine": machine(system=system()), "versions": versions("jcw-kernels"), "rows": rows}
        write(args.out, results, draw(rows))


if __name__ == "__main__":
    main()

"""Whole networks: the engine of this project beside whatever else runs pruned networks on this machine.

Every runtime gets the same random weights, all ungrouped convolutions but the first and the linear layer pruned
in groups of four output channels, and one pinned core. Rounds are interleaved: in each round every runtime
times every density of a network once.

    python benchmarks/networks.py --peers /path/to/a/venv/bin/python --out docs/results/networks.json
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, command_line, machine, subplots, system, versions, write
from numpy.typing import NDArray
from pruned_models import BACKBONES, DENSITIES, pruned_model
from runtimes import LOADERS
from workers import Worker, start

from jcw_core.formats.onnx_writer import to_onnx
from jcw_core.network.graph import Network
from jcw_kernels import chosen_isa, compile_model

OURS = "jcw"


def write_models(network: Network, folder: Path) -> tuple[Path, dict[str, list[Path]]]:
    """An image, and the models of all densities as ``.jcw`` and ``.onnx``."""
    rng = np.random.default_rng(0)
    image = folder / "image.npy"
    np.save(image, rng.standard_normal((1, *network.input_shape), dtype=np.float32))
    names = [f"{network.name}-{density}" for density in DENSITIES]
    files = {suffix: [folder / f"{name}{suffix}" for name in names] for suffix in (".jcw", ".onnx")}
    for density, jcw, onnx in zip(DENSITIES, files[".jcw"], files[".onnx"], strict=True):
        model = pruned_model(network, density, rng)
        compile_model(model).save(jcw)
        onnx.write_bytes(to_onnx(model, batch=1).SerializeToString())
    return image, files


def measure(network: Network, args: argparse.Namespace) -> Iterator[Row]:
    """The rows of one network."""
    with tempfile.TemporaryDirectory() as name:
        image, files = write_models(network, Path(name))
        workers: dict[str, Worker] = {}
        for runtime in LOADERS:
            ours = runtime == OURS
            python = sys.executable if ours else args.peers
            worker = start(runtime, args.cores, image, files[".jcw" if ours else ".onnx"], python)
            if isinstance(worker, Worker):
                workers[runtime] = worker
            else:
                print(f"{network.name}: without {runtime}: {worker}", file=sys.stderr)
        try:
            seconds = interleaved(workers, args)
        finally:
            for worker in workers.values():
                worker.process.kill()
    yield from rows_of(network, workers, seconds, len(args.cores))


def interleaved(workers: Mapping[str, Worker], args: argparse.Namespace) -> NDArray[np.float64]:
    """(rounds, runtimes, densities) seconds."""
    rounds = 3 if args.quick else args.rounds
    visit = 0.02 if args.quick else args.visit_ms / 1e3
    densities = range(len(DENSITIES))
    return np.array(
        [[[w.seconds(d, visit) for d in densities] for w in workers.values()] for _ in range(rounds)]
    )


def rows_of(
    network: Network, workers: Mapping[str, Worker], seconds: NDArray[np.float64], threads: int
) -> Iterator[Row]:
    """``max_error`` is the largest difference from onnxruntime's logits (or our own where it is missing),
    as a share of the largest logit.
    """
    reference = workers.get("onnxruntime", workers[OURS]).outputs
    for r, (runtime, worker) in enumerate(workers.items()):
        for d, density in enumerate(DENSITIES):
            ms = seconds[:, r, d] * 1e3
            error = np.abs(worker.outputs[d] - reference[d]).max() / np.abs(reference[d]).max()
            yield {
                "network": network.name,
                "density": density,
                "runtime": runtime,
                "version": worker.version,
                "threads": threads,
                "median_ms": float(np.median(ms)),
                "min_ms": float(ms.min()),
                "max_ms": float(ms.max()),
                "max_error": float(error),
            }


def compare(rows: Sequence[Row]) -> list[Row]:
    """For each network and density: our median against the fastest peer's.

    A pruned network is compared with the peers' dense runs too: users would take the faster.
    """
    found = []
    for ours in (row for row in rows if row["runtime"] == OURS):
        peers = [
            row
            for row in rows
            if row["runtime"] != OURS
            and row["network"] == ours["network"]
            and row["density"] in (ours["density"], 1.0)
        ]
        if peers:
            best = min(peers, key=lambda row: row["median_ms"])
            found.append(
                {
                    "network": ours["network"],
                    "density": ours["density"],
                    "jcw_ms": ours["median_ms"],
                    "peer": best["runtime"],
                    "peer_density": best["density"],
                    "peer_ms": best["median_ms"],
                    "speedup": best["median_ms"] / ours["median_ms"],
                }
            )
    return found


def geometric_mean(comparisons: Sequence[Row]) -> float | None:
    """Of the speedups on pruned networks; None without any."""
    speedups = [c["speedup"] for c in comparisons if c["density"] < 1]
    return float(np.exp(np.mean(np.log(speedups)))) if speedups else None


def summary(rows: Sequence[Row], comparisons: Sequence[Row]) -> str:
    """Two tables for people."""
    lines = ["network       density  runtime       median ms   min    max    error"]
    lines += [
        f"{r['network']:13} {r['density']:7}  {r['runtime']:12} {r['median_ms']:9.2f} "
        f"{r['min_ms']:6.2f} {r['max_ms']:6.2f}  {r['max_error']:.1e}"
        for r in sorted(rows, key=lambda r: (r["network"], -r["density"], r["median_ms"]))
    ]
    lines += [
        f"{c['network']} at {c['density']}: {c['speedup']:.2f} times as fast as {c['peer']} at {c['peer_density']}"
        for c in comparisons
    ]
    mean = geometric_mean(comparisons)
    return "\n".join(lines + ([f"geometric mean, pruned: {mean:.2f}"] if mean else []))


def draw(rows: Sequence[Row]) -> Any:
    """Median milliseconds with their spread."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    runtimes = list(dict.fromkeys(row["runtime"] for row in rows))
    figure, [axes] = subplots(1, len(networks), 5 * len(networks), 3.8)
    for axis, network in zip(axes, networks, strict=True):
        for index, runtime in enumerate(runtimes):
            own = [r for r in rows if (r["network"], r["runtime"]) == (network, runtime)]
            median = np.array([r["median_ms"] for r in own])
            spread = [median - [r["min_ms"] for r in own], [r["max_ms"] for r in own] - median]
            place = np.array([DENSITIES.index(r["density"]) for r in own]) + 0.8 * (
                index / len(runtimes) - 0.4
            )
            axis.bar(place, median, 0.8 / len(runtimes), yerr=spread, label=runtime, capsize=2)
        axis.set(title=network, xlabel="density", ylabel="ms")
        axis.set_xticks(range(len(DENSITIES)), [str(density) for density in DENSITIES])
    axes[0].legend()
    return figure


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = command_line(__doc__, quick="three short rounds")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--visit-ms", type=float, default=100.0, help="how long a visit repeats a model")
    parser.add_argument("--networks", nargs="+", choices=BACKBONES, default=list(BACKBONES))
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--cores", type=int, nargs="+", default=[0], help="pin to these; one thread on each")
    parser.add_argument("--peers", default=sys.executable, help="the Python that has the other runtimes")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    args = arguments()
    rows = [
        row
        for name in args.networks
        for row in measure(BACKBONES[name].build(input_size=args.input_size), args)
    ]
    comparisons = compare(rows)
    print(summary(rows, comparisons))
    if args.out:
        results = {
            "machine": machine(isa=chosen_isa(), system=system()),
            "versions": versions() | {row["runtime"]: row["version"] for row in rows},
            "rows": rows,
            "comparisons": comparisons,
            "geometric_mean_pruned": geometric_mean(comparisons),
        }
        write(args.out, results, draw(rows))


if __name__ == "__main__":
    main()

"""The engine in WebAssembly beside onnxruntime-web's, in one page of headless Chromium and in Node, in one thread, by turns.

emcmake cmake -S packages/jcw-kernels -B build/wasm -DJCW_PYTHON=OFF && cmake --build build/wasm
cmake --install build/wasm --prefix packages/jcw-kernels/wasm
npm install --prefix build/peers onnxruntime-web
python benchmarks/wasm.py --peers build/peers --out docs/results/wasm.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from browser import in_browser
from harness import Row, command_line, machine, subplots, versions, write
from pruned_models import BACKBONES, DENSITIES, pruned_model

from jcw_core.formats.onnx_writer import to_onnx
from jcw_kernels import compile_model

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "packages" / "jcw-kernels" / "wasm"
RUNTIMES = ("jcw", "onnxruntime-web")


def measure(name: str, args: argparse.Namespace) -> Iterator[Row]:
    """The rows of one network, in each host."""
    network = BACKBONES[name].build(num_classes=1000, input_size=args.input_size)
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, *network.input_shape), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        files: list[Path] = []
        for density in DENSITIES:
            model = pruned_model(network, density, rng)
            for suffix in (".jcw", ".onnx"):
                files.append(Path(folder, f"{density}{suffix}"))
            compile_model(model).save(files[-2])
            files[-1].write_bytes(to_onnx(model, batch=1).SerializeToString())
        raw = Path(folder, "image.raw")
        image.tofile(raw)
        peer = args.peers / "node_modules" / "onnxruntime-web"
        rounds, visit = (2, 1) if args.quick else (args.rounds, args.visit_ms)
        for host in args.hosts:
            said = HOSTS[host](args.package, peer, raw, rounds, visit, files)
            yield from rows_of(name, said)


def in_node(
    package: Path, peer: Path, image: Path, rounds: int, visit_ms: float, models: Sequence[Path]
) -> dict[str, Any]:
    """What ``wasm.mjs`` prints."""
    command = ["node", HERE / "wasm.mjs", package, peer, image, rounds, visit_ms, *models]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


HOSTS = {"chromium": in_browser, "node": in_node}


def rows_of(network: str, said: Mapping[str, Any]) -> Iterator[Row]:
    """One row for each density and runtime; ``error`` is the largest difference from the peer as a share of its largest logit."""
    ms, outputs = np.array(said["ms"]), said["outputs"]
    for d, density in enumerate(DENSITIES):
        ours, theirs = (np.array(outputs[2 * d + r]) for r in range(2))
        for r, runtime in enumerate(RUNTIMES):
            low, median, high = np.quantile(ms[:, 2 * d + r], (0, 0.5, 1))
            yield {
                "host": said["host"],
                "network": network,
                "density": density,
                "runtime": runtime,
                "version": version("jcw-kernels") if runtime == RUNTIMES[0] else said["onnxruntime_web"],
                "median_ms": float(median),
                "min_ms": float(low),
                "max_ms": float(high),
                "error": float(np.abs(ours - theirs).max() / np.abs(theirs).max()),
            }


def compare(rows: Sequence[Row]) -> Iterator[Row]:
    """Each pruned or dense network of ours beside the faster of the peer's two: it gains nothing from zeros."""
    for ours in (row for row in rows if row["runtime"] == RUNTIMES[0]):
        peer = min(
            row["median_ms"]
            for row in rows
            if row["runtime"] != RUNTIMES[0]
            and (row["host"], row["network"]) == (ours["host"], ours["network"])
            and row["density"] in (1.0, ours["density"])
        )
        yield {
            "host": ours["host"],
            "network": ours["network"],
            "density": ours["density"],
            "jcw_ms": ours["median_ms"],
            "peer_ms": peer,
            "speedup": peer / ours["median_ms"],
        }


def draw(comparisons: Sequence[Row]) -> Any:
    """Milliseconds of both for each network and density, a panel for each host."""
    hosts = list(dict.fromkeys(row["host"] for row in comparisons))
    figure, axes = subplots(len(hosts), 1, 8, 3 * len(hosts))
    for host, axis in zip(hosts, axes[:, 0], strict=True):
        own = [row for row in comparisons if row["host"] == host]
        places = np.arange(len(own))
        for offset, key, label in ((-0.2, "jcw_ms", RUNTIMES[0]), (0.2, "peer_ms", RUNTIMES[1])):
            axis.bar(places + offset, [row[key] for row in own], 0.4, label=label)
        axis.set_xticks(places, [f"{row['network']}\n{row['density']:.0%}" for row in own], fontsize=7)
        axis.set(title=host, ylabel="ms")
        axis.legend()
    return figure


def summary(comparisons: Sequence[Row]) -> str:
    """The table of the results page."""
    lines = ["| host | network | density | jcw | onnxruntime-web | ratio |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row['host']} | {row['network']} | {row['density']:.0%} | {row['jcw_ms']:.1f} | {row['peer_ms']:.1f} "
        f"| {row['speedup']:.2f} |"
        for row in comparisons
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__, "two rounds of one millisecond")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="the npm package, with jcw.wasm in it")
    parser.add_argument(
        "--peers", type=Path, required=True, help="a folder with node_modules/onnxruntime-web"
    )
    parser.add_argument("--networks", nargs="+", default=list(BACKBONES), choices=list(BACKBONES))
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--visit-ms", type=float, default=150)
    parser.add_argument("--hosts", nargs="+", default=list(HOSTS), choices=list(HOSTS))
    args = parser.parse_args()
    rows = sorted(
        itertools.chain.from_iterable(measure(name, args) for name in args.networks), key=itemgetter("host")
    )
    comparisons = list(compare(rows))
    print(summary(comparisons))
    if args.out:
        results = {
            "machine": machine(threads=1),
            "versions": versions("jcw-kernels"),
            "rounds": args.rounds,
            "visit_ms": args.visit_ms,
            "rows": rows,
            "comparisons": comparisons,
        }
        write(args.out, results, draw(comparisons))


if __name__ == "__main__":
    main()

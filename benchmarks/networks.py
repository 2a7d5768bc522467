"""Whole networks: the engine of this project beside whatever else runs pruned networks on this machine.

Every runtime gets the same random weights, all ungrouped convolutions but the first and the linear layer pruned
in groups of four output channels, and one pinned core; in int8, too, numbers chosen by the same image. Rounds are
interleaved: in each round every runtime times every density of a network once, in each precision. The results file
keeps what it has of other processors, instruction sets and batches.

    python benchmarks/networks.py --peers /path/to/a/venv/bin/python --out docs/results/networks.json
    python benchmarks/networks.py --avx2 ...    # as on a processor that ends there, for us and all peers
    python benchmarks/networks.py --precisions float32 float16 int8 ...    # where a processor has FP16
    python benchmarks/networks.py --batch 8 --cores 0 1 --precisions float32 --out docs/results/batches.json ...
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from avx2_only import avx2_only, milliseconds_since_avx512
from harness import Row, command_line, machine, system, versions, write
from networks_figure import details, draw, summary
from numpy.typing import NDArray
from pruned_models import BACKBONES, DENSITIES, pruned_model
from runtimes import IN_HALF, LOADERS
from without_amx import forbid_amx
from workers import Worker, start

from jcw_core.errors import JcwError
from jcw_core.formats.onnx_writer import to_onnx
from jcw_core.network.graph import Network
from jcw_core.protocols import Products
from jcw_kernels import calibrate, chosen_isa, compile_model
from jcw_kernels.gains import products_here

OURS = "jcw"
PRECISIONS = ("float32", "float16", "int8")
Files = dict[tuple[str, str], list[Path]]
"""The models of all densities, by precision and suffix."""


def write_models(
    network: Network, folder: Path, precisions: Sequence[str], batch: int, products: Products
) -> tuple[Path, Files]:
    """Images, and the models of all densities as ``.jcw`` and ``.onnx``; layers of int8 are chosen by ``products``."""
    rng = np.random.default_rng(0)
    image, pixels = folder / "image.npy", rng.standard_normal((batch, *network.input_shape), dtype=np.float32)
    np.save(image, pixels)
    files: Files = {(precision, suffix): [] for precision in precisions for suffix in (".jcw", ".onnx")}
    for density in DENSITIES:
        model = pruned_model(network, density, rng)
        exact = folder / f"{density}.onnx"
        exact.write_bytes(to_onnx(model, batch=batch).SerializeToString())
        for precision in precisions:
            jcw, onnx = (folder / f"{density}-{precision}{suffix}" for suffix in (".jcw", ".onnx"))
            numbers = calibrate(model, pixels, products=products) if precision == "int8" else None
            kind = "float16" if precision == "float16" else "float32"
            compile_model(model, quantization=numbers, precision=kind).save(jcw)
            write_rounded(exact, pixels, onnx) if precision == "int8" else shutil.copyfile(exact, onnx)
            files[precision, ".jcw"].append(jcw)
            files[precision, ".onnx"].append(onnx)
    return image, files


def write_rounded(exact: Path, pixels: NDArray[np.float32], path: Path) -> None:
    """An ONNX file in int8, as ONNX Runtime makes it: all that can be, weights by output channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Once(CalibrationDataReader):  # type: ignore[misc]
        images = iter([{"input": pixels}])

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self.images, None)

    quantize_static(
        exact, path, Once(), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip


def measure(network: Network, args: argparse.Namespace) -> Iterator[Row]:
    """The rows of one network."""
    with tempfile.TemporaryDirectory() as name:
        environment = avx2_only(Path(name)) if args.avx2 else {}
        products = "pairs" if args.avx2 else products_here()
        image, files = write_models(network, Path(name), args.precisions, args.batch, products)
        workers: dict[tuple[str, str], Worker] = {}
        for precision, runtime in itertools.product(args.precisions, LOADERS):
            if precision == "float16" and runtime not in IN_HALF:
                continue
            ours = runtime == OURS
            python = sys.executable if ours else args.peers
            models = files[precision, ".jcw" if ours else ".onnx"]
            worker = start(runtime, precision, args.cores, image, models, python, environment)
            if isinstance(worker, Worker):
                workers[runtime, precision] = worker
            else:
                print(f"{network.name}: without {runtime} in {precision}: {worker}", file=sys.stderr)
        try:
            seconds = interleaved(list(workers.values()), args)
            if args.avx2:
                for worker in workers.values():
                    require_avx2(worker)
        finally:
            for worker in workers.values():
                worker.process.kill()
    yield from rows_of(network, workers, seconds, len(args.cores))


def require_avx2(worker: Worker) -> None:
    """Raise ``RuntimeError`` where a runtime computes with AVX-512 all the same."""
    visit = 1.0
    worker.seconds(0, visit)
    if milliseconds_since_avx512(worker.process.pid) < 1e3 * visit / 2:
        raise RuntimeError(f"{worker.name} was told that there is no AVX-512, and uses it")


def interleaved(workers: Sequence[Worker], args: argparse.Namespace) -> NDArray[np.float64]:
    """(rounds, workers, densities) seconds."""
    rounds = 3 if args.quick else args.rounds
    visit = 0.02 if args.quick else args.visit_ms / 1e3
    densities = range(len(DENSITIES))
    return np.array([[[w.seconds(d, visit) for d in densities] for w in workers] for _ in range(rounds)])


def rows_of(
    network: Network,
    workers: Mapping[tuple[str, str], Worker],
    seconds: NDArray[np.float64],
    threads: int,
) -> Iterator[Row]:
    """``max_error`` is the largest difference from onnxruntime's float32 logits (or our own where it is missing),
    as a share of the largest logit.
    """
    first = next(iter(workers.values()))
    reference = workers.get(("onnxruntime", "float32"), first).outputs
    for w, ((runtime, precision), worker) in enumerate(workers.items()):
        for d, density in enumerate(DENSITIES):
            ms = seconds[:, w, d] * 1e3
            error = np.abs(worker.outputs[d] - reference[d]).max() / np.abs(reference[d]).max()
            yield {
                "network": network.name,
                "density": density,
                "runtime": runtime,
                "precision": precision,
                "version": worker.version,
                "threads": threads,
                "median_ms": float(np.median(ms)),
                "min_ms": float(ms.min()),
                "max_ms": float(ms.max()),
                "max_error": float(error),
            }


def compare(rows: Sequence[Row]) -> list[Row]:
    """For each network, density and precision: our median against the fastest peer's.

    A pruned network is compared with the peers' dense runs too: users would take the faster. Otherwise also with our own
    float32.
    """
    found = []
    for ours in (row for row in rows if row["runtime"] == OURS):
        same = [row for row in rows if row["network"] == ours["network"]]
        peers = [
            row
            for row in same
            if row["runtime"] != OURS
            and row["precision"] == ours["precision"]
            and row["density"] in (ours["density"], 1.0)
        ]
        if peers:
            best = min(peers, key=lambda row: row["median_ms"])
            exact = [
                row["median_ms"]
                for row in same
                if (row["runtime"], row["precision"], row["density"]) == (OURS, "float32", ours["density"])
            ]
            found.append(
                {
                    "network": ours["network"],
                    "density": ours["density"],
                    "precision": ours["precision"],
                    "jcw_ms": ours["median_ms"],
                    "peer": best["runtime"],
                    "peer_density": best["density"],
                    "peer_ms": best["median_ms"],
                    "speedup": best["median_ms"] / ours["median_ms"],
                    **({"over_float32": exact[0] / ours["median_ms"]} if exact else {}),
                }
            )
    return found


def geometric_mean(comparisons: Sequence[Row], precision: str) -> float | None:
    """Of the speedups on pruned networks; None without any."""
    speedups = [c["speedup"] for c in comparisons if c["density"] < 1 and c["precision"] == precision]
    return float(np.exp(np.mean(np.log(speedups)))) if speedups else None


def others(path: Path, ran: Row) -> list[Row]:
    """What a results file has of other processors, instruction sets and batches."""
    kinds = ("cpu", "isa", "amx", "batch")
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.is_file() else []
    return [run for run in runs if any(run["machine"].get(key) != ran.get(key) for key in kinds)]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = command_line(__doc__, quick="three short rounds")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--visit-ms", type=float, default=100.0, help="how long a visit repeats a model")
    parser.add_argument("--networks", nargs="+", choices=BACKBONES, default=list(BACKBONES))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["float32", "int8"])
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=1, help="images of a run")
    parser.add_argument("--cores", type=int, nargs="+", default=[0], help="pin to these; one thread on each")
    lesser = parser.add_mutually_exclusive_group()
    lesser.add_argument(
        "--without-amx", action="store_true", help="as on a processor that has none, which other runtimes use"
    )
    lesser.add_argument(
        "--avx2", action="store_true", help="as on a processor without AVX-512, VNNI and AMX; needs cc"
    )
    parser.add_argument("--peers", default=sys.executable, help="the Python that has the other runtimes")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    args = arguments()
    if args.without_amx:
        forbid_amx()
    networks = (BACKBONES[name].build(input_size=args.input_size) for name in args.networks)
    try:
        rows = [row for network in networks for row in measure(network, args)]
    except JcwError as error:
        sys.exit(f"error: {error}")
    comparisons = compare(rows)
    means = {name: geometric_mean(comparisons, name) for name in args.precisions}
    run: Row = {
        "machine": machine(isa=chosen_isa("avx2" if args.avx2 else ""), system=system())
        | ({"amx": False} if args.without_amx else {})
        | ({"batch": args.batch} if args.batch > 1 else {}),
        "versions": versions() | {row["runtime"]: row["version"] for row in rows},
        "rows": rows,
        "comparisons": comparisons,
        "geometric_means": {name: mean for name, mean in means.items() if mean is not None},
    }
    print(details(rows), summary(run), sep="\n")
    if args.out:
        runs = [*others(args.out, run["machine"]), run]
        write(args.out, {"runs": runs}, draw(runs))


if __name__ == "__main__":
    main()

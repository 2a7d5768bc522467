"""Whole networks: the engine of this project beside whatever else runs pruned networks on this machine.

Every runtime gets the same random weights, all ungrouped convolutions but the first and the linear layer pruned
in groups of four output channels, and one pinned core. Rounds are interleaved: in each round every runtime
times every density of a network once.

    python benchmarks/networks.py --peers /path/to/a/venv/bin/python --out docs/results/networks.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runtimes import LOADERS

from jcw_core.backbones.mobilenet_v1 import MOBILENET_V1
from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
from jcw_core.backbones.resnet import RESNET18
from jcw_core.files import write_json
from jcw_core.model import Model
from jcw_core.network import Network
from jcw_core.pruning import density_mask
from jcw_kernels import chosen_isa, compile_model
from jcw_kernels.host import cpu_name
from jcw_retrain.onnx_export import to_onnx

Row = dict[str, Any]

BACKBONES = {family.name: family for family in (RESNET18, MOBILENET_V1, MOBILENET_V2)}
DENSITIES = (1.0, 0.2, 0.1)
OURS = "jcw"
QUIET = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "NM_DISABLE_ANALYTICS": "1"}
"""Keeps runtimes from spinning on the shared core while others are timed, and from calling home."""


def pruned_model(network: Network, density: float, rng: np.random.Generator) -> Model:
    """Random weights whose activations stay near one in size at any density."""
    arrays: dict[str, NDArray[np.float32]] = {}
    first = next(node.name for node in network if node.op == "conv2d")
    for name, shape in {**network.parameter_shapes, **network.buffer_shapes}.items():
        values = rng.standard_normal(shape)
        if len(shape) > 1:
            pruned = shape[1] > 1 and name != f"{first}.weight"
            values *= density_mask(values, density) if pruned else 1.0
            values /= np.sqrt(np.square(values).sum() / shape[0])
        elif name.endswith(("running_var", "weight")):
            values = 1 + 0.1 * np.abs(values)
        else:
            values *= 0.1
        arrays[name] = values.astype(np.float32)
    return Model(network, arrays)


@dataclass(frozen=True, slots=True)
class Worker:
    """A process of ``runtimes.py``, its version, and what its models made of the image: (models, logits)."""

    process: subprocess.Popen[str]
    version: str
    outputs: NDArray[np.float64]

    def seconds(self, model: int, visit: float) -> float:
        """Time one model."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"model": model, "seconds": visit}) + "\n")
        self.process.stdin.flush()
        return float(_answer(self.process)["seconds"])


def _answer(process: subprocess.Popen[str]) -> Mapping[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        return {"error": f"the process ended with status {process.wait()}"}
    answer: Mapping[str, Any] = json.loads(line)
    return answer


def start(name: str, cores: Sequence[int], image: Path, models: Sequence[Path], python: str) -> Worker | str:
    """A worker with its models loaded, or why there is none."""
    script = Path(__file__).with_name("runtimes.py")
    command = [python, str(script), name, ",".join(map(str, cores)), str(image), *map(str, models)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | QUIET,
    )
    answer = _answer(process)
    if "error" in answer:
        process.kill()
        return str(answer["error"])
    return Worker(process, str(answer["version"]), np.array(answer["outputs"]))


def write_models(network: Network, folder: Path) -> tuple[Path, dict[str, list[Path]]]:
    """An image, and the models of all densities as ``.jcw`` and ``.onnx``."""
    rng = np.random.default_rng(0)
    image = folder / "image.npy"
    np.save(image, rng.standard_normal((1, *network.input_shape), dtype=np.float32))
    files: dict[str, list[Path]] = {".jcw": [], ".onnx": []}
    for density in DENSITIES:
        model = pruned_model(network, density, rng)
        path = folder / f"{network.name}-{density}"
        compile_model(model).save(path.with_suffix(f"{path.suffix}.jcw"))
        path.with_suffix(f"{path.suffix}.onnx").write_bytes(to_onnx(model, batch=1).SerializeToString())
        for suffix, paths in files.items():
            paths.append(path.with_suffix(path.suffix + suffix))
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


def draw(rows: Sequence[Row], path: Path) -> None:
    """Median milliseconds with their spread, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    networks = list(dict.fromkeys(row["network"] for row in rows))
    runtimes = list(dict.fromkeys(row["runtime"] for row in rows))
    figure, axes = pyplot.subplots(1, len(networks), figsize=(5 * len(networks), 3.8), layout="constrained")
    for axis, network in zip(np.atleast_1d(axes), networks, strict=True):
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
    np.atleast_1d(axes)[0].legend()
    figure.savefig(path, dpi=110)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file; a plot goes beside it")
    parser.add_argument("--quick", action="store_true", help="three short rounds")
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
        machine = {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "isa": chosen_isa(),
            "system": f"{platform.system()} {platform.machine()}",
        }
        versions = {"python": platform.python_version()} | {row["runtime"]: row["version"] for row in rows}
        write_json(
            args.out,
            {
                "machine": machine,
                "versions": versions,
                "rows": rows,
                "comparisons": comparisons,
                "geometric_mean_pruned": geometric_mean(comparisons),
            },
        )
        draw(rows, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()

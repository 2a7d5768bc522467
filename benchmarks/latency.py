"""How fast and how right latency predictions are: speed, fidelity on this machine, and grids that leave points out.

`speed` predicts random ResNet-18s from a random table and compares with scipy's interpolator. `fidelity` profiles each
network on the `host` device with a full and an adaptive grid; random architectures of it, which both tables predict, run
whole before, between and after. `thinned` leaves out every second grid point of the published Cortex-A72 table and predicts it.

    python benchmarks/latency.py --out docs/results/latency.json
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import PAPER_TABLE, command_line, machine, subplots, versions, write
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from jcw_core.errors import JcwError
from jcw_core.network.layers import fuse, problem_of
from jcw_core.protocols import DeviceInfo, Progress
from jcw_core.registry import Registry
from jcw_core.space.space import Population, SearchSpace
from jcw_latency import LatencyOptions, LatencyPredictor, LatencyTable, profile_space, table_from_arrays
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.fidelity.check import compare
from jcw_latency.profiling.grid import width_points
from jcw_latency.profiling.networks import NetworkRuns
from jcw_latency.table.axes import CHANNELS, DENSITY, IN, OUT, layer_axes

Floats = NDArray[np.float64]

NETWORKS = ("resnet18", "mobilenet_v1", "mobilenet_v2")


def speed(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Architectures per second, ours and scipy's, and how far the two are apart."""
    backbone = Registry().backbones["resnet18"]
    network, rng = backbone.build(), np.random.default_rng(0)
    space = SearchSpace.of(network, defaults=backbone.bounds)
    arrays, axes = {}, {}
    for layer in fuse(network):
        # The 20 convolutions of the published table; what is left costs nothing there.
        if layer.node.op == "conv2d":
            axes[layer.name] = layer_axes(network, layer, problem_of(network, layer))
            shape = [11 if axis == DENSITY else 9 for axis in axes[layer.name]]
            arrays[layer.name] = rng.uniform(size=shape)
    table = table_from_arrays(
        network, arrays, axes=axes, device=DeviceInfo("random", "", "", 1), others="free"
    )
    predictor, ours = LatencyPredictor(table, space), space.sample(20_000 if args.quick else 400_000, rng)
    few = ours[:20_000]
    predictor.predict(ours[:1000])
    seconds = _fastest(lambda: predictor.predict(ours), 3 if args.quick else 9)
    scipy_seconds = _fastest(lambda: _by_scipy(table, space, few), 3)
    apart = np.abs(predictor.predict(few) / _by_scipy(table, space, few) - 1).max()
    yield {
        "kind": "speed",
        "layers": len(arrays),
        "architectures_per_second": len(ours) / seconds,
        "scipy_architectures_per_second": len(few) / scipy_seconds,
        "max_relative_difference": float(apart),
    }


def _fastest(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several calls: what the code costs when nobody else has the core."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _by_scipy(table: LatencyTable, space: SearchSpace, population: Population) -> Floats:
    total = np.zeros(len(population))
    for layer in fuse(space.network):
        grid = table.grid(space.network, layer)
        if not grid.ms.any():
            continue
        at = {
            IN: space.channels(population, layer.inputs[0]),
            CHANNELS: space.channels(population, layer.inputs[0]),
            OUT: space.channels(population, layer.output),
            DENSITY: space.density(population, layer.name),
        }
        where = np.stack([at[axis] for axis in grid.axes], axis=-1)
        total += RegularGridInterpolator(list(grid.axes.values()), grid.ms)(where)
    return total


def fidelity(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Profile each network on this machine with full and adaptive grids, random architectures run whole in between."""
    registry = Registry()
    plugin = registry.devices["host"]
    device = GuardedDevice.of(plugin.open(plugin.options()), LatencyOptions().timeout, registry.exporters)
    for name in args.networks:
        backbone, rng = registry.backbones[name], np.random.default_rng(0)
        space = SearchSpace.of(backbone.build(input_size=args.input_size), defaults=backbone.bounds)
        population = space.sample(args.check, rng)
        tables = {}
        with tempfile.TemporaryDirectory() as folder:
            runs = NetworkRuns(
                space.network,
                [space.architecture(row) for row in population],
                device,
                rounds=20,
                rng=rng,
                folder=Path(folder),
                notify=_say(f"{name}: check"),
            )
            for part, grid in enumerate(("full", "adaptive"), 1):
                # Before, between and after: a machine that changes its speed does so to both tables.
                runs.advance(part / 3)
                points = (
                    {"adaptive": True}
                    if grid == "adaptive"
                    else {"widths": args.widths, "densities": args.densities}
                )
                if args.quick:  # as often as a quiet machine needs, and no finer than it begins
                    points |= {"rounds": LatencyOptions().min_rounds, "adaptive_tolerance": 1.0}
                options = LatencyOptions(whole_networks=args.whole, **points)
                tables[grid] = _profiled(device, space, options, rng, Path(folder), f"{name}, {grid}")
            runs.finish()
        for grid, (table, seconds) in tables.items():
            found = compare(LatencyPredictor(table, space), population, runs).to_dict()
            if args.tables:
                table.save(args.tables / f"{name}-{grid}.npz")
            yield _row(name, grid, args.input_size, table, seconds) | found


def _profiled(
    device: GuardedDevice,
    space: SearchSpace,
    options: LatencyOptions,
    rng: np.random.Generator,
    folder: Path,
    what: str,
) -> tuple[LatencyTable, float]:
    """What ``jcw profile`` does: the table, and the seconds that it took."""
    start = time.monotonic()
    table = profile_space(space, device, options, rng=rng, folder=folder, notify=_say(what))
    return table, time.monotonic() - start


def _row(name: str, grid: str, input_size: int, table: LatencyTable, seconds: float) -> dict[str, Any]:
    run = table.end_to_end[name]
    return {
        "kind": "fidelity",
        "network": name,
        "grid": grid,
        "input_size": input_size,
        "grid_points": table.settings["points"],
        "profile_seconds": seconds,
        "drift": table.settings["drift"],
        "scale": run.scale,
        "overhead_ms": run.overhead_ms,
        "bend": run.quadratic,
        "device": {"cpu": table.device.cpu, "isa": table.device.isa, "threads": table.device.threads},
    }


def _say(what: str) -> Callable[[Progress], None]:
    return lambda event: print(
        f"\r{what}: {event.unit} {event.done}/{event.total} {event.detail}   ", end="", file=sys.stderr
    )


def thinned(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Mean error at the points that a grid of half as many widths and densities leaves out."""
    path = args.reference / "runtime.npy"
    if not path.is_file():
        print(f"no published table at {path}; give its folder as --reference", file=sys.stderr)
        return
    grids = np.load(path, allow_pickle=False)[1:]
    for placement in ("even", "midpoint"):
        kept = np.array(width_points(8, 4, 1, placement), dtype=int)  # type: ignore[arg-type]
        errors = [_left_out(grid, kept) for grid in grids]
        yield {
            "kind": "thinned",
            "placement": placement,
            "mean_error": float(np.mean([e.mean() for e, _ in errors])),
            "mean_error_from_a_quarter_of_the_width": float(np.mean([e[wide].mean() for e, wide in errors])),
        }


def _left_out(grid: Floats, kept: NDArray[np.intp]) -> tuple[Floats, NDArray[np.bool_]]:
    """Relative errors at the points left out, and which of them have a quarter of both widths or more."""
    predict = RegularGridInterpolator(
        (kept, kept, range(0, 11, 2)), grid[np.ix_(kept, kept, range(0, 11, 2))]
    )
    points = np.stack(np.meshgrid(range(1, 9), range(1, 9), range(11), indexing="ij"), axis=-1).reshape(-1, 3)
    out = points[~(np.isin(points[:, :2], kept).all(axis=1) & (points[:, 2] % 2 == 0))]
    return np.abs(predict(out) / grid[tuple(out.T)] - 1), (out[:, :2] >= 2).all(axis=1)


def summary(rows: list[dict[str, Any]]) -> str:
    """A line for each row."""
    lines = []
    for row in rows:
        if row["kind"] == "speed":
            lines.append(
                f"speed: {row['architectures_per_second'] / 1e6:.2f} M architectures/s, scipy "
                f"{row['scipy_architectures_per_second'] / 1e6:.2f} M, apart {row['max_relative_difference']:.1e}"
            )
        elif row["kind"] == "fidelity":
            lines.append(
                f"{row['network']}, {row['grid']} grid: {row['grid_points']} points in {row['profile_seconds']:.0f} s, MAPE {row['mape']:.2%}, "
                f"largest {row['max_error']:.2%}, bias {row['bias']:+.2%}, Kendall's tau {row['kendall_tau']:.3f} "
                f"(MACs {row['macs_kendall_tau']:.3f}), machine drift {row['drift']:.0%}, "
                f"slower than for the table by {row['slowdown']:+.1%}"
            )
        else:
            lines.append(
                f"thinned, {row['placement']} widths: {row['mean_error']:.2%}, from a quarter of the width "
                f"{row['mean_error_from_a_quarter_of_the_width']:.2%}"
            )
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]]) -> Any:
    """A network in each column: measured over predicted latency, of both grids, and over multiply-accumulates."""
    found = [row for row in rows if row["kind"] == "fidelity"]
    networks = list(dict.fromkeys(row["network"] for row in found)) or [""]
    figure, axes = subplots(2, len(networks), 3.6 * len(networks), 7)
    for (scatter, twin), network in zip(axes.T, networks, strict=True):
        own = [row for row in found if row["network"] == network]
        for row, marker in zip(own, ("o", "x"), strict=False):
            points = sorted((p["predicted_ms"], p["measured_ms"]) for p in row["points"])
            label = f"{row['grid']} grid: {row['mape']:.1%} off, {row['profile_seconds']:.0f} s"
            scatter.plot(*zip(*points, strict=True), marker, markersize=4, fillstyle="none", label=label)
        scatter.axline((0, 0), slope=1, linewidth=0.8, color="grey")
        scatter.set(title=network, xlabel="predicted (ms)", ylabel="measured (ms)")
        scatter.legend(fontsize=8, loc="upper left")
        for row in own[:1]:
            counts = [(p["macs"] / 1e6, p["measured_ms"]) for p in row["points"]]
            twin.plot(*zip(*counts, strict=True), "o", markersize=4, fillstyle="none", color="tab:green")
        twin.set(xlabel="multiply-accumulates (millions)", ylabel="measured (ms)")
    return figure


def main() -> None:
    """Parse the command line and run."""
    parser = command_line(__doc__, quick="small grids, inputs and samples")
    parser.add_argument("--only", choices=("speed", "fidelity", "thinned"), help="one part alone")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--widths", type=int, default=8)
    parser.add_argument("--densities", type=int, default=10)
    parser.add_argument("--check", type=int, default=100, help="random networks that run whole")
    parser.add_argument("--whole", type=int, default=120, help="networks run whole while profiling")
    parser.add_argument("--tables", type=Path, help="folder for the latency tables")
    parser.add_argument("--reference", type=Path, default=PAPER_TABLE, help="folder of the published table")
    args = parser.parse_args()
    if args.quick:
        args.networks, args.input_size = args.networks[:1], 32
        args.widths, args.densities, args.check, args.whole = 2, 2, 5, 4
    parts = {"speed": speed, "fidelity": fidelity, "thinned": thinned}
    try:
        rows = [row for name, part in parts.items() if args.only in (None, name) for row in part(args)]
    except JcwError as error:
        sys.exit(f"error: {error}")
    print(summary(rows))
    if args.out:
        ran = machine(load=os.getloadavg()[0])
        used = versions("jcw-core", "jcw-latency", "jcw-kernels", "numpy", "scipy")
        write(args.out, {"machine": ran, "versions": used, "rows": rows}, draw(rows))


if __name__ == "__main__":
    main()

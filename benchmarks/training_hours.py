"""What the paper's schedule costs in hours, by the images a second that ``training.py --accelerator`` has measured.

Counted are the images that the supernet is trained on, those that architectures are scored on, and those that models are
retrained on. To score takes the forward third of a step.

    python benchmarks/training_hours.py docs/results/training.json --devices 1 2 8
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from harness import Row

from jcw_retrain.options import RetrainOptions, phases

EPOCHS, WARMUP, BATCH = 30, 10, 256
POPULATION, GENERATIONS = 64, 128
SCORED = 1280 + 2500
"""Images that set batch-norm statistics, and the half of 5,000 held out that a search sees."""
DATA = {
    "100 classes, 500 images each": 50_000,
    "ImageNet-100": 126_689 - 5_000,
    "ImageNet": 1_281_167 - 5_000,
}
"""Images that the supernet is trained on."""
MODES = ("continuous", "per-generation")
MODELS = 4
"""That are retrained, beside the dense network."""


def steps(images: int, mode: str) -> int:
    """Of the supernet; ``per-generation`` trains after its warm-up in each generation, the first, and for the front."""
    each = images // BATCH
    if mode == "continuous":
        return each * EPOCHS
    return each * (WARMUP + (GENERATIONS + 2) * (EPOCHS - WARMUP))


def scored(mode: str) -> int:
    """Images that architectures are scored on: ``per-generation`` scores parents again, whose values no longer hold."""
    again = 1 if mode == "continuous" else 2
    return POPULATION * (1 + GENERATIONS * again) * SCORED


def speed(devices: int, two: float = 2.0) -> float:
    """How many times as fast ``devices`` share batches as one, if two are ``two`` times as fast.

    By Amdahl's law, whose part that does not shrink is what two show; the sums of a ring of processes have the same form.
    """
    return devices / (1 + (devices - 1) * (2 / two - 1))


def search_hours(images: int, mode: str, rate: float, devices: int = 1, two: float = 2.0) -> float:
    """Of the supernet and the search, where a device trains ``rate`` images a second of drawn sub-networks.

    Architectures are scored each by one device, which costs nothing to share.
    """
    trained = steps(images, mode) * BATCH / speed(devices, two)
    return (trained + scored(mode) / 3 / devices) / rate / 3600


def retrained(network: str) -> int:
    """Images that each model is trained on."""
    batch, epochs = 512, phases(RetrainOptions(), network).epochs
    return 1_281_167 // batch * batch * epochs


def retrain_hours(images: int, rate: float, dense: float, devices: int = 1, two: float = 2.0) -> float:
    """Of the dense network, at ``dense`` images a second, and the models, which are as large as what is drawn.

    Whole models are dealt out to devices; where there are more of these, all share each.
    """
    jobs = [images / each / 3600 for each in (dense, *[rate] * MODELS)]
    if devices > len(jobs):
        return sum(jobs) / speed(devices, two)
    return max(sum(jobs[device::devices]) for device in range(devices))


def table(row: Row, devices: Sequence[int], two: float | None) -> str:
    """Hours of all schedules by a row of ``training.py``; without ``two``, the least, of devices that lose nothing.

    The last column is for other devices: hours of one that trains r images a second in the supernet, and R of the dense
    network.
    """
    rate, dense = (1e3 * row["images"] / row[f"{name}_ms"] for name in ("supernet", "dense"))
    heads = [f"hours on {n}" + ", at least" * (n > 1 and not two) for n in devices]
    lines = [
        f"{row['network']} x {row['width']:g}, {row['pixels']} pixels, on {row['device']} in {row['precision']}: "
        f"r = {rate:.0f}, R = {dense:.0f} images a second; two devices share a batch "
        + (f"{two:.2f} times as fast" if two else "at twice the rate at most"),
        "",
        f"| schedule | images | {' | '.join(heads)} | on one of r, R |",
        "|---" * (len(devices) + 3) + "|",
    ]
    for mode in MODES:
        for name, images in DATA.items():
            found = [search_hours(images, mode, rate, n, two or 2.0) for n in devices]
            lines.append(_line(f"`{mode}`", name, found, f"{search_hours(images, mode, 1):,.0f} / r"))
    each = retrained(row["network"])
    found = [retrain_hours(each, rate, dense, n, two or 2.0) for n in devices]
    formula = f"{MODELS * each / 3600:,.0f} / r + {each / 3600:,.0f} / R"
    lines.append(_line("retraining", f"ImageNet, the dense network and {MODELS} models", found, formula))
    return "\n".join(lines)


def _line(schedule: str, images: str, hours: Sequence[float], formula: str) -> str:
    cells = [f"{one:,.0f}" if one >= 10 else f"{one:.1f}" for one in hours]
    return f"| {' | '.join([schedule, images, *cells, formula])} |"


def of_two(rows: Sequence[Row], row: Row) -> float | None:
    """How many times as fast two of a row's devices are, by the last row of two processes that it has, or None."""
    same = ("network", "capability")
    found = [
        one["ratio"]
        for one in rows
        if one["kind"] == "processes" and all(one[key] == row[key] for key in same)
    ]
    return found[-1] if found else None


def tables(rows: Sequence[Row], devices: Sequence[int]) -> str:
    """A table for each row that has the rates."""
    return "\n\n".join(table(row, devices, of_two(rows, row)) for row in rows if row["kind"] == "peak")


def main() -> None:
    """Print them."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, help="what training.py wrote")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 8])
    args = parser.parse_args()
    print(tables(json.loads(args.results.read_text(encoding="utf-8"))["rows"], args.devices))


if __name__ == "__main__":
    main()

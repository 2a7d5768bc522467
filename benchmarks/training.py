"""What training costs: a supernet's step over a plain torch step, images from files over images from memory, two
processes over one.

A step of the supernet draws widths and densities, cuts and masks the shared weights, and updates them; the plain step
trains a module of torch's own layers that has those widths from the start. Images are JPEG files, decoded and changed at
random by threads before they are wanted, in one step, and already there in the other. Two processes share each batch of
one. What is compared runs in turn, on one thread beside which decoding, or the second process, may use the other cores.
Rows of other instruction sets that the results file has stay there.

With ``--accelerator`` another thing: steps of the supernet and of the dense network as shares of what a GPU, or a core,
multiplies at most; two GPUs over one, where there are two; and what that makes of the paper's schedule in hours.

    python benchmarks/training.py --out docs/results/training.json
    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 python benchmarks/training.py --out docs/results/training.json
    python benchmarks/training.py --accelerator cuda --out docs/results/training.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from harness import Row, command_line, machine, versions, write
from training_figure import draw, summary
from training_files import files
from training_hours import tables
from training_peak import arithmetic_on, device_name, peak
from training_steps import ratios, steps

from jcw_core.training.precision import threads

STEPS = (
    ("resnet18", 0.25, 32, 128),
    ("mobilenet_v2", 0.5, 32, 128),
    ("resnet18", 1.0, 224, 8),
    ("resnet18", 1.0, 224, 32),
)
"""Network, factor on its channels, pixels on each side, images in a step."""
FILES = ("resnet18", 0.5, 128, 32)
"""As above, of the images that come from files; those have 1.5 times as many pixels on each side."""
EPOCH = 12
"""Steps that they last. Before the first of an epoch there are no images yet."""
PROCESSES = (("resnet18", 0.25, 32, 128), ("mobilenet_v2", 0.5, 32, 128))
"""As above, of the images that two processes share."""
PEAK = {
    "cpu": (("resnet18", 1.0, 224, 32), ("mobilenet_v2", 1.0, 224, 32)),
    "cuda": (("resnet18", 1.0, 224, 256), ("mobilenet_v1", 1.0, 224, 256), ("mobilenet_v2", 1.0, 224, 256)),
}
"""As above, of the steps that are held to a peak: what a core computes in seconds, and the batches of the paper."""
MATRIX = {"cpu": 2048, "cuda": 8192}
"""Rows of the matrices whose product is the peak."""
SHARED = (("resnet18", 1.0, 224, 256),)
"""As above, of the images that two GPUs share."""


def processes(args: argparse.Namespace) -> Iterator[Row]:
    """How many times as fast two processes train as one."""
    program = Path(__file__).with_name("training_processes.py")
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(program),
    ]
    for name, width, size, count in args.processes:
        options = {"width": width, "pixels": size, "images": count, "rounds": args.rounds}
        words = [f"--{key}={value}" for key, value in options.items()]
        words.append(f"--accelerator={args.accelerator or 'cpu'}")
        own = {**os.environ, "OMP_NUM_THREADS": "1"}
        printed = subprocess.run([*launch, name, *words], check=True, stdout=subprocess.PIPE, env=own).stdout
        yield {
            "kind": "processes", "network": name, "width": width, "pixels": size, "images": count,
            **ratios("alone_ms", "together_ms", 1e3 * np.array(json.loads(printed))),
        }  # fmt: skip


def on_accelerator(args: argparse.Namespace) -> list[Row]:
    """Shares of a peak, and where there are two GPUs how they share a batch."""
    shares = args.accelerator == "cuda" and torch.cuda.device_count() > 1
    return [*peak(args), *(processes(args) if shares else ())]


def on_a_core(args: argparse.Namespace) -> list[Row]:
    """All ratios."""
    with tempfile.TemporaryDirectory() as folder:
        return [*steps(args), *files(args, Path(folder)), *processes(args)]


def others(path: Path, rows: Sequence[Row]) -> list[Row]:
    """What a results file has of other instruction sets and devices, and what was not measured again."""
    new = {(row["kind"], row["capability"]) for row in rows}
    old = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
    return [row for row in old if (row["kind"], row["capability"]) not in new]


def arguments() -> argparse.Namespace:
    """The command line, and what is measured."""
    parser = command_line(__doc__, quick="one small network, three rounds")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32"])
    parser.add_argument("--accelerator", choices=tuple(PEAK), help="shares of its peak, and hours, alone")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 8], help="for which hours are told")
    args = parser.parse_args()
    if args.accelerator == "cuda" and not torch.cuda.is_available():
        parser.error(f"torch {torch.__version__} finds no GPU")
    args.steps, args.files, args.processes, args.epoch = STEPS, FILES, PROCESSES, EPOCH
    args.peak, args.matrix = PEAK.get(args.accelerator), MATRIX.get(args.accelerator)
    if args.accelerator == "cuda":
        args.processes = SHARED
    if args.quick:
        args.rounds, args.workers, args.epoch, args.matrix = 3, [0, 1], 2, 256
        args.steps, args.files = (("mobilenet_v2", 0.25, 32, 8),), ("resnet18", 0.125, 32, 8)
        args.processes = args.peak = (("resnet18", 0.125, 32, 8),)
    return args


def main() -> None:
    """Measure, print, write."""
    args = arguments()
    with threads(1):
        found = on_accelerator(args) if args.accelerator else on_a_core(args)
    on_gpu = args.accelerator == "cuda"
    capability = device_name(arithmetic_on("cuda")) if on_gpu else torch.backends.cpu.get_cpu_capability()
    rows = [row | {"capability": capability} for row in found]
    print(summary(rows))
    if args.out:
        rows += others(args.out, rows)
    if args.accelerator:
        print("", tables([row for row in rows if row["capability"] == capability], args.devices), sep="\n")
    if args.out:
        write(args.out, {**ran(args), "rows": rows}, draw(rows))


def ran(args: argparse.Namespace) -> Row:
    """The machine and versions; of a file with more rows those of the ratios stay, and rows of peaks name their device."""
    if args.accelerator and args.out.is_file():
        old = json.loads(args.out.read_text(encoding="utf-8"))
        return {"machine": old["machine"], "versions": old["versions"]}
    return {"machine": machine(load=os.getloadavg()[0]), "versions": versions("jcw-core", "torch")}


if __name__ == "__main__":
    main()

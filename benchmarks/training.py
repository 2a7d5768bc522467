"""What training costs: a supernet's step over a plain torch step, images from files over images from memory, two
processes over one.

A step of the supernet draws widths and densities, cuts and masks the shared weights, and updates them; the plain step
trains a module of torch's own layers that has those widths from the start. Images are JPEG files, decoded and changed at
random by threads before they are wanted, in one step, and already there in the other. Two processes share each batch of
one. What is compared runs in turn, on one thread beside which decoding, or the second process, may use the other cores.
Rows of other instruction sets that the results file has stay there.

    python benchmarks/training.py --out docs/results/training.json
    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 python benchmarks/training.py --out docs/results/training.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name everybody knows
from harness import Row, command_line, machine, subplots, versions, write
from PIL import Image
from pruned_models import BACKBONES
from torch import Tensor, nn

from jcw_core.datasets.image_folder import ImageFolder, ImageFolderOptions
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import pair
from jcw_core.network.shrink import shrink
from jcw_core.space.space import SearchSpace
from jcw_core.training.batches import Batch, TrainingImages
from jcw_core.training.module import Slimmable
from jcw_core.training.optimizer import sgd
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_core.training.precision import computing, threads

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
_RATE = TrainingOptions(epochs=1, batch_size=1, lr=0.01)


class Plain(nn.Module):
    """A network of torch's own layers, as anybody would write it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._nodes = list(network)
        layers = {node.name.replace(".", "/"): _layer(network, node) for node in network}
        self.layers = nn.ModuleDict({name: layer for name, layer in layers.items() if layer is not None})

    def forward(self, images: Tensor) -> Tensor:
        """(n, classes) of (n, channels, height, width)."""
        values = {"": images}
        for node in self._nodes:
            inputs = [values[name] for name in node.inputs or ("",)]
            name = node.name.replace(".", "/")
            value = self.layers[name](*inputs) if name in self.layers else inputs[0]
            values[node.name] = inputs[0] + inputs[1] if node.op == "add" else value
        return value


def _layer(network: Network, node: Node) -> nn.Module | None:
    """The module of one node; None for a sum, the input and the output."""
    a, inputs = node.attributes, network.input_shapes(node)
    if node.op == "conv2d":
        channels, window = inputs[0][0], (pair(a, key) for key in ("kernel_size", "stride", "padding"))
        outputs = network.shapes[node.name][0]
        return nn.Conv2d(channels, outputs, *window, groups=int(str(a["groups"])), bias=bool(a["bias"]))
    made: dict[str, Callable[[], nn.Module]] = {
        "batch_norm": lambda: nn.BatchNorm2d(inputs[0][0]),
        "linear": lambda: nn.Linear(inputs[0][0], network.num_classes),
        "relu": lambda: nn.ReLU(inplace=True),
        "relu6": lambda: nn.ReLU6(inplace=True),
        "max_pool": lambda: nn.MaxPool2d(*(pair(a, key) for key in ("kernel_size", "stride", "padding"))),
        "global_avg_pool": lambda: nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten,
    }
    return made[node.op]() if node.op in made else None


def steps(args: argparse.Namespace) -> Iterator[Row]:
    """A row for each network and precision."""
    for name, width, size, count in args.steps:
        network = BACKBONES[name].build(num_classes=10, width=width, input_size=size)
        space, rng = SearchSpace.of(network, defaults=BACKBONES[name].bounds), np.random.default_rng(0)
        for precision in args.precisions:
            arithmetic = Arithmetic(precision, channels_last=True)
            images = torch.randn(count, *network.input_shape).contiguous(memory_format=torch.channels_last)
            batch, module = (images, torch.arange(count) % 10), Slimmable(network, rng)
            optimizer, taken = sgd(module, _RATE), []
            for row in space.sample(args.rounds, rng):
                architecture = space.architecture(row)
                # The cut network has no densities: nothing in torch trains faster for them.
                plain = Plain(shrink(network, architecture)).to(memory_format=torch.channels_last)
                taken.append(
                    _seconds(partial(module, images, architecture), optimizer, plain, batch, arithmetic)
                )
            yield {
                "kind": "step", "network": name, "width": width, "pixels": size, "images": count, "precision": precision,
                **ratios("supernet_ms", "plain_ms", 1e3 * np.array(taken)),
            }  # fmt: skip


def _seconds(
    supernet: Callable[[], Tensor],
    optimizer: torch.optim.Optimizer,
    plain: nn.Module,
    batch: Batch,
    arithmetic: Arithmetic,
) -> tuple[float, float]:
    """Of a step of the supernet and one of the plain module, the second of two each: a first one makes memory."""
    own, found = sgd(plain, _RATE), []
    for forward, update in ((supernet, optimizer), (partial(plain, batch[0]), own)) * 2:
        began = time.perf_counter()
        update.zero_grad(set_to_none=False)
        _descend(forward, batch[1], arithmetic)
        update.step()
        found.append(time.perf_counter() - began)
    return found[2], found[3]


def _descend(forward: Callable[[], Tensor], labels: Tensor, arithmetic: Arithmetic) -> None:
    with computing(arithmetic):
        logits = forward()
    F.cross_entropy(logits.float(), labels).backward()  # type: ignore[no-untyped-call]


def files(args: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Images a second from files, with each number of workers, and from memory."""
    name, width, size, count = args.files
    network = BACKBONES[name].build(num_classes=10, width=width, input_size=size)
    _grow(folder, 3 * size // 2, args.epoch * count)
    options = ImageFolderOptions(path=folder, size=size)
    dataset, arithmetic = ImageFolder().open("train", options), Arithmetic("fp32", channels_last=True)
    module = Slimmable(network, np.random.default_rng(0))
    optimizer = sgd(module, _RATE)
    memory = list(TrainingImages(dataset, Augmentation(), arithmetic).epoch(count, np.random.default_rng(0)))
    for workers in args.workers:
        images, taken = TrainingImages(dataset, Augmentation(), arithmetic, workers), []
        for number in range(args.rounds + 1):
            epochs = (iter(memory), images.epoch(count, np.random.default_rng(number)))
            taken.append([_epoch(module, optimizer, batches, arithmetic) for batches in epochs])
        yield {
            "kind": "files", "network": name, "width": width, "pixels": size, "images": count, "workers": workers,
            **ratios("memory_ms", "files_ms", 1e3 * np.array(taken[1:])),
        }  # fmt: skip


def _grow(folder: Path, size: int, count: int) -> None:
    """Smooth pictures as JPEG files of one class, laid out for ``image_folder``."""
    rng = np.random.default_rng(0)
    (folder / "train" / "one").mkdir(parents=True)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        coarse.resize((size, size), Image.Resampling.BICUBIC).save(
            folder / "train" / "one" / f"{number}.jpg", quality=90
        )


def _epoch(
    module: Slimmable, optimizer: torch.optim.Optimizer, batches: Iterator[Batch], arithmetic: Arithmetic
) -> float:
    began = time.perf_counter()
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=False)
        _descend(partial(module, images), labels, arithmetic)
        optimizer.step()
    return time.perf_counter() - began


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
        own = {**os.environ, "OMP_NUM_THREADS": "1"}
        printed = subprocess.run([*launch, name, *words], check=True, stdout=subprocess.PIPE, env=own).stdout
        yield {
            "kind": "processes", "network": name, "width": width, "pixels": size, "images": count,
            **ratios("alone_ms", "together_ms", 1e3 * np.array(json.loads(printed))),
        }  # fmt: skip


def ratios(first: str, second: str, taken_ms: np.ndarray) -> Row:
    """Medians of both columns, and of the first over the second with its quartiles."""
    shares = taken_ms[:, 0] / taken_ms[:, 1]
    low, middle, high = np.quantile(shares, [0.25, 0.5, 0.75]).tolist()
    medians = np.median(taken_ms, axis=0).tolist()
    return {first: medians[0], second: medians[1], "ratio": middle, "ratio_quartiles": [low, high]}


def name_of(row: Row) -> str:
    """A row in words."""
    size = f"{row['network']} x {row['width']:g}, {row['images']} images of {row['pixels']} pixels"
    more = {"step": "{precision}", "files": "{workers} workers", "processes": "2 processes"}[row["kind"]]
    return f"{size}, {more.format(**row)}"


def summary(rows: Sequence[Row]) -> str:
    """The tables of the results page."""
    lines = ["| a step of | instructions | supernet ms | plain ms | ratio |", "|---|---|---|---|---|"]
    for row in (row for row in rows if row["kind"] == "step"):
        low, high = row["ratio_quartiles"]
        lines.append(
            f"| {name_of(row)} | {row['capability']} | {row['supernet_ms']:.0f} | {row['plain_ms']:.0f} "
            f"| {row['ratio']:.2f} ({low:.2f} to {high:.2f}) |"
        )
    for kind, title in (
        ("files", "images from files, as a share of the rate from memory"),
        ("processes", "two processes, as a multiple of the rate of one"),
    ):
        lines += ["", f"| {title} | instructions | ratio |", "|---|---|---|"]
        for row in (row for row in rows if row["kind"] == kind):
            low, high = row["ratio_quartiles"]
            lines.append(
                f"| {name_of(row)} | {row['capability']} | {row['ratio']:.2f} ({low:.2f} to {high:.2f}) |"
            )
    return "\n".join(lines)


def draw(rows: Sequence[Row]) -> Any:
    """Ratios with their quartiles."""
    titles = {
        "step": "supernet's step over a plain one",
        "files": "rate from files over that from memory",
        "processes": "rate of two processes over one",
    }
    figure, grid = subplots(len(titles), 1, 9, 3 + len(rows) / 3)
    for [axis], (kind, title) in zip(grid, titles.items(), strict=True):
        own = [row for row in rows if row["kind"] == kind]
        middle = np.array([row["ratio"] for row in own])
        low, high = np.array([row["ratio_quartiles"] for row in own]).T
        axis.errorbar(
            middle,
            [f"{name_of(row)}, {row['capability']}" for row in own],
            xerr=[middle - low, high - middle],
            fmt="o",
            capsize=2,
        )
        axis.axvline(1, linewidth=0.8, color="grey")
        axis.margins(y=0.3)
        axis.set(title=title, xlim=(0.5, 2))
        axis.invert_yaxis()
    return figure


def others(path: Path, capability: str) -> list[Row]:
    """What a results file has of other instruction sets."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
    return [row for row in rows if row["capability"] != capability]


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__, quick="one small network, three rounds")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32"])
    args = parser.parse_args()
    args.steps, args.files, args.processes, args.epoch = STEPS, FILES, PROCESSES, EPOCH
    if args.quick:
        args.rounds, args.workers, args.epoch = 3, [0, 1], 2
        args.steps, args.files = (("mobilenet_v2", 0.25, 32, 8),), ("resnet18", 0.125, 32, 8)
        args.processes = (("resnet18", 0.125, 32, 8),)
    with threads(1), tempfile.TemporaryDirectory() as folder:
        found = [*steps(args), *files(args, Path(folder)), *processes(args)]
    capability = torch.backends.cpu.get_cpu_capability()
    rows = [row | {"capability": capability} for row in found]
    print(summary(rows))
    if args.out:
        rows += others(args.out, capability)
        ran = machine(load=os.getloadavg()[0])
        write(args.out, {"machine": ran, "versions": versions("jcw-core", "torch"), "rows": rows}, draw(rows))


if __name__ == "__main__":
    main()

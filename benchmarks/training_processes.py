"""One of several processes that train a network in turns alone and together, for ``training.py``, which starts them by
``torch.distributed.run``. The first prints JSON: seconds of an epoch [alone, together], of each round.
"""

from __future__ import annotations

import json
import os
import tempfile
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
from pruned_models import BACKBONES

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.ranks import Ranks
from jcw_core.training.batches import TrainingImages
from jcw_core.training.joined import Joined
from jcw_core.training.loop import EpochReport, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions
from jcw_core.training.precision import threads

_STEPS = 4
"""Of an epoch."""


def seconds(
    images: TrainingImages, module: Slimmable, count: int, ranks: Ranks, arithmetic: Arithmetic
) -> float:
    """What an epoch takes the processes that work on it."""
    found: list[EpochReport] = []
    with tempfile.TemporaryDirectory() as folder:
        Training(
            module,
            images,
            TrainingOptions(epochs=1, batch_size=count, lr=0.01),
            arithmetic,
            np.random.default_rng,
            Path(folder) / "epoch.safetensors",
            found.append,
            ranks=ranks,
        ).run()
    return found[0].seconds


def main() -> None:
    """Train, in turns."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("network", choices=sorted(BACKBONES))
    parser.add_argument("--width", type=float, required=True, help="factor on the channels")
    parser.add_argument("--pixels", type=int, required=True, help="on each side")
    parser.add_argument("--images", type=int, required=True, help="of a step, in all processes together")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--accelerator", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    arithmetic = Arithmetic("fp32", channels_last=True)
    if args.accelerator == "cuda":
        arithmetic = Arithmetic("bf16", channels_last=True, device=f"cuda:{os.environ['LOCAL_RANK']}")
    network = BACKBONES[args.network].build(num_classes=10, width=args.width, input_size=args.pixels)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (_STEPS * args.images, *network.input_shape), dtype=np.uint8)
    dataset = MemoryDataset(tuple("0123456789"), (0.5,) * 3, (0.25,) * 3, pixels, np.arange(len(pixels)) % 10)
    images = TrainingImages(dataset, Augmentation(), arithmetic)
    ranks, taken = Joined(), []

    def epoch(together: bool) -> float:
        module = Slimmable(network, rng).to(arithmetic.device)
        return seconds(images, module, args.images, ranks if together else Ranks(), arithmetic)

    with threads(1):
        for _ in range(args.rounds + 1):  # the first makes memory
            alone = epoch(together=False) if ranks.is_first else 0.0
            ranks.wait()
            shared = epoch(together=True)
            ranks.wait()
            taken.append((alone, shared))
    if ranks.is_first:
        print(json.dumps(taken[1:]))
    ranks.leave()


if __name__ == "__main__":
    main()

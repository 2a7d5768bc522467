"""Trainings for one process or several; as a program, what each of several makes of them goes to files of its own."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from supernet_samples import BUILDERS, Blobs

from jcw_core.ranks import Ranks
from jcw_core.registry import Registry
from jcw_core.space.space import SearchSpace
from jcw_core.supernet.draws import Draws
from jcw_core.supernet.sharing import Sharing
from jcw_core.training import checkpoint
from jcw_core.training.batches import TrainingImages
from jcw_core.training.loop import Method, Training
from jcw_core.training.module import Slimmable
from jcw_core.training.options import Arithmetic, Augmentation, TrainingOptions

BATCH = 15
"""Images of a step, which two processes cannot share evenly."""
EXACT, ROUNDED = Arithmetic(), Arithmetic("bf16", channels_last=True)


def train(
    name: str, path: Path, ranks: Ranks, *, whole: bool, epochs: int = 2, arithmetic: Arithmetic = EXACT
) -> tuple[list[float], Slimmable]:
    """Train a network, whole or by sandwiches of its sub-networks, with a checkpoint in ``path``.

    Returns:
        the loss of each epoch, and the module.
    """
    network, losses = BUILDERS[name](), list[float]()
    module = Slimmable(network, np.random.default_rng(0))
    draws = Draws(SearchSpace.of(network), rule="sandwich")
    Training(
        module,
        TrainingImages(Blobs(60), Augmentation(1, True), arithmetic),
        TrainingOptions(epochs=epochs, batch_size=BATCH, lr=0.02, ema=0.9),
        arithmetic,
        rng=np.random.default_rng,
        path=path,
        report=lambda epoch: losses.append(epoch.loss),
        method=Method() if whole else Sharing(draws),
        ranks=ranks,
    ).run()
    return losses, module


def cases() -> list[tuple[str, bool]]:
    """Networks, and whether they are trained whole."""
    return [(name, whole) for name in BUILDERS for whole in (True, False)]


def rounded_cases() -> list[tuple[str, bool]]:
    """Those that are trained in bf16 as well, as on a GPU."""
    return [("residual", True), ("residual", False), ("depthwise", False)]


def main(folder: Path) -> None:
    """Train all cases together with the others, and write losses and what was learnt as this process has it."""
    torch.set_num_threads(1)
    ranks = Registry().join_ranks()
    own, losses = folder / f"rank{ranks.rank}", {}
    own.mkdir()
    for name, whole, arithmetic in [
        *((*case, EXACT) for case in cases()),
        *((*case, ROUNDED) for case in rounded_cases()),
    ]:
        key = f"{name}-{whole}" + "-bf16" * (arithmetic is ROUNDED)
        losses[key], module = train(name, folder / key, ranks, whole=whole, arithmetic=arithmetic)
        checkpoint.save(own / key, module.state_dict(), {})
    (own / "losses.json").write_text(json.dumps(losses))
    module = Slimmable(BUILDERS["residual"](), np.random.default_rng(ranks.rank))
    for tensor in module.state_dict().values():
        ranks.copy(tensor)
    checkpoint.save(own / "copied", module.state_dict(), {})
    seen = [ranks.first(lambda: "first"), ranks.gather(ranks.rank), list(ranks.share(5)), ranks.speaks()]
    (own / "seen.json").write_text(json.dumps(seen))
    ranks.wait()
    # As torch does by itself in many places; its modules hold the group that they find.
    importlib.import_module("torch._dynamo")
    ranks.leave()
    tasks = Path("/proc/self/task")
    threads = [(task / "comm").read_text().strip() for task in tasks.iterdir()] if tasks.exists() else []
    (own / "threads.json").write_text(json.dumps(threads))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

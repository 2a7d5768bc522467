"""The recipe that ``jcw init`` writes, with a comment at each choice that a user may want to make another way."""

from __future__ import annotations

import json
from dataclasses import dataclass

from jcw_core.begin.found import Found
from jcw_core.errors import DataError

_LEAST = 64
"""Images to work with."""
_SMALL = 96
"""Pixels on each side below which images are not cut."""
_BATCHES = (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the recipe is to say beside what was found.

    Args:
        network: the key of ``[network]`` and its value.
        trained: whether the network brings weights, and is pruned as it is.
        images: the path of the images, from the recipe's folder.
        plane: (channels, height, width) of the network's input.
        outputs: classes of the network; 0 for a backbone, which has those of the data.
        budget_ms: latency; None for models all along the front.
        command: that runs the recipe.
    """

    network: tuple[str, str]
    trained: bool
    images: str
    plane: tuple[int, int, int]
    outputs: int
    budget_ms: float | None
    command: str


def recipe_text(found: Found, wanted: Wanted) -> str:
    """The recipe as TOML.

    Raises:
        DataError: too few images, or a network that cannot be trained on them.
    """
    _check(found, wanted)
    key, network = wanted.network
    budget = "# budgets_ms = [10.0]      # the best model within each, in place of models along the whole front\nmodels = 5"
    if wanted.budget_ms is not None:
        budget = f"budgets_ms = [{wanted.budget_ms!r}]   # the best model within each"
    work = _trained() if wanted.trained else _training(found, wanted)
    return f"""# {found.sizes}, {len(found.classes)} classes; jcw recipe prints every key that a recipe may have.
#     {wanted.command}

[network]
{key} = {_quoted(network)}   # {"its own weights are pruned" if wanted.trained else "jcw networks lists them; or file = a network of yours"}

[data]
{_data(found, wanted)}
[device]
name = "host"               # where it is to be fast; jcw plugins lists devices, docs/profiling.md has boards and phones

[latency]
adaptive = true             # a quicker profile; without it every layer is timed on a whole grid

{work[0]}
[retrain]
{budget}
{work[1]}"""


def _check(found: Found, wanted: Wanted) -> None:
    least = max(_LEAST, 2 * len(found.classes))
    if found.train < least:
        raise DataError(f"{found.path}: {found.train} images to work with are too few; give at least {least}")
    if wanted.trained:
        return
    if len(found.classes) < 2:
        raise DataError(
            f"{found.path}: {found.train + found.test} images, but not of two classes or more as class/file, or as "
            "split/class/file with train and test or val, which training takes; lay them out so, or give a trained "
            "network: --network model.onnx"
        )
    if wanted.outputs not in (0, len(found.classes)):
        raise DataError(
            f"{found.path}: {len(found.classes)} classes, but {wanted.network[1]} has {wanted.outputs}; they must be as many"
        )
    if wanted.plane[1] != wanted.plane[2]:
        raise DataError(
            f"{wanted.network[1]}: takes {wanted.plane}; to be trained on images of a folder, a network takes squares"
        )


def _data(found: Found, wanted: Wanted) -> str:
    channels, height, width = wanted.plane
    holdout = min(found.train // 4, 128 if wanted.trained else 2000)
    lines = [
        f'name = "{"images" if wanted.trained else "image_folder"}"',
        f"path = {_quoted(wanted.images)}",
        f"size = {height}                  # the short side is resized to it, and the middle cut out",
        *([f"width = {width}"] if width != height else []),
        f"channels = {channels}",
        *([f"outputs = {wanted.outputs}"] if wanted.trained else []),
        *(
            []
            if found.split
            else ["test_share = 0.2          # of the images to score on, since no folder says which"]
        ),
        f"holdout = {holdout}               # images on which the search estimates errors; none of them is trained on",
        *([] if wanted.trained else [_augment(wanted)]),
    ]
    return "\n".join(lines) + "\n"


def _augment(wanted: Wanted) -> str:
    """Of small images a part shows too little."""
    if _is_small(wanted):
        return "augment = false             # true: random parts, mirror images and other colours, for photographs"
    return "augment = true              # random parts, mirror images and other colours; false for letters and signs"


def _is_small(wanted: Wanted) -> bool:
    return wanted.plane[1] < _SMALL


def _training(found: Found, wanted: Wanted) -> tuple[str, str]:
    """Where the network is to be trained: more epochs are better, and take longer."""
    left = found.train - found.train // 4
    batch = max(size for size in _BATCHES if size <= max(left // 4, _BATCHES[0]))
    moved = (
        f"crop_padding = {wanted.plane[1] // 8}   # pixels by which images are moved at random\n"
        if _is_small(wanted)
        else ""
    )
    return (
        f"# More epochs are better and take longer.\n[supernet]\nepochs = 30\nbatch_size = {batch}\n{moved}",
        f"{moved}pretrain = {{ epochs = 20, batch_size = {batch} }}\nadmm = {{ epochs = 10, batch_size = {batch}, rho = 0.1 }}\n"
        f"finetune = {{ epochs = 20, batch_size = {batch} }}\n",
    )


def _trained() -> tuple[str, str]:
    """Where it is pruned as it is: no epoch, and no label."""
    return (
        '# Nothing is trained, and no label is looked at but to score the models.\n[supernet]\nmode = "post-training"\n\n'
        '[search]\nobjectives = ["latency", "distance"]\npopulation = 32\ngenerations = 8\n',
        'init = "supernet"\npretrain = { epochs = 0 }\nadmm = { epochs = 0 }\nfinetune = { epochs = 0 }\n\n'
        "[export]\nnormalise = true            # files take pixels as they are\n",
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

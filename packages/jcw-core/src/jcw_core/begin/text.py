"""The recipe that ``jcw init`` writes, with a comment at each choice that a user may want to make another way."""

from __future__ import annotations

import json
from dataclasses import dataclass

from jcw_core.begin.found import SMALL, TEST_SHARE, Found
from jcw_core.errors import DataError

_LEAST = 64
"""Images to work with."""
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
    source = (
        "its own weights are pruned" if wanted.trained else "jcw networks lists them; or file = one of yours"
    )
    budgets = (
        [_line(f"budgets_ms = [{wanted.budget_ms!r}]", "the best model within each")]
        if wanted.budget_ms is not None
        else [
            _line("# budgets_ms = [10.0]", "the best model within each, in place of the following"),
            "models = 5",
        ]
    )
    work, training = _trained() if wanted.trained else _training(found, wanted)
    lines = [
        f"# {found.sizes}, {len(found.classes)} classes; jcw recipe prints every key that a recipe may have.",
        f"#     {wanted.command}",
        "\n[run]",
        _line('# time = "20 min"', "about what it may take: epochs, population and models are cut to it"),
        "\n[network]",
        _line(f"{key} = {_quoted(network)}", source),
        "\n[data]",
        *_data(found, wanted),
        "\n[device]",
        _line('name = "host"', "jcw plugins lists devices, docs/profiling.md has boards and phones"),
        "\n[latency]",
        _line("adaptive = true", "a quicker profile; without it every layer is timed on a whole grid"),
        *work,
        "\n[retrain]",
        *budgets,
        *training,
    ]
    return "\n".join(lines) + "\n"


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


def _data(found: Found, wanted: Wanted) -> list[str]:
    channels, height, width = wanted.plane
    holdout = min(found.train // 4, 128 if wanted.trained else 2000)
    return [
        f'name = "{"images" if wanted.trained else "image_folder"}"',
        f"path = {_quoted(wanted.images)}",
        _line(f"size = {height}", "the short side is resized to it, and the middle cut out"),
        *([f"width = {width}"] if width != height else []),
        f"channels = {channels}",
        *([f"outputs = {wanted.outputs}"] if wanted.trained else []),
        *(
            []
            if found.split
            else [
                _line(f"test_share = {TEST_SHARE}", "of the images to score on, where no folder says which")
            ]
        ),
        _line(f"holdout = {holdout}", "of the others, on which the search estimates errors"),
        *([] if wanted.trained else [_augment(wanted)]),
    ]


def _augment(wanted: Wanted) -> str:
    """Of small images a part shows too little."""
    if _is_small(wanted):
        return _line(
            "augment = false", "true: random parts, mirror images and other colours, for photographs"
        )
    return _line(
        "augment = true", "random parts, mirror images and other colours; false for letters and signs"
    )


def _is_small(wanted: Wanted) -> bool:
    return wanted.plane[1] < SMALL


def _training(found: Found, wanted: Wanted) -> tuple[list[str], list[str]]:
    """Where the network is to be trained: the tables before ``[retrain]``, and lines in it."""
    left = found.train - found.train // 4
    batch = max(size for size in _BATCHES if size <= max(left // 4, _BATCHES[0]))
    moved = [_line(f"crop_padding = {wanted.plane[1] // 8}", "pixels by which images are moved at random")]
    moved = moved if _is_small(wanted) else []
    return (
        [
            "\n[supernet]",
            _line("epochs = 30", "more are better and take longer, here and below"),
            f"batch_size = {batch}",
            *moved,
        ],
        [
            *moved,
            f"pretrain = {{ epochs = 20, batch_size = {batch} }}",
            f"admm = {{ epochs = 10, batch_size = {batch}, rho = 0.1 }}",
            f"finetune = {{ epochs = 20, batch_size = {batch} }}",
        ],
    )


def _trained() -> tuple[list[str], list[str]]:
    """Where it is pruned as it is: no epoch, and no label."""
    return (
        [
            "\n# Nothing is trained, and no label is looked at but to score the models.",
            "[supernet]",
            'mode = "post-training"',
            "\n[search]",
            'objectives = ["latency", "distance"]',
            "population = 32",
            "generations = 8",
        ],
        [
            'init = "supernet"',
            *(f"{phase} = {{ epochs = 0 }}" for phase in ("pretrain", "admm", "finetune")),
            "\n[export]",
            _line("normalise = true", "files take pixels as they are"),
        ],
    )


def _line(setting: str, comment: str) -> str:
    """A key and what it is for, comments in one column."""
    return f"{setting:27} # {comment}"


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)

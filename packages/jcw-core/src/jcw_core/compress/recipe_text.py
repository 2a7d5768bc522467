"""The recipe that ``jcw compress`` works by, as TOML: what it measures, how much it looks at, and what it hands over.

Sizes are such that MobileNetV2 at 224 pixels takes minutes on two processors; each can be set as in any recipe.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jcw_core.compress.request import Request
from jcw_core.datasets.arrangement import Arrangement
from jcw_core.errors import DataError
from jcw_core.run.checks import available_cores

LEAST_IMAGES = 32
"""To work with, beside those that are scored."""
_CALIBRATED = 400
"""Images from which layers' statistics are collected."""
_HELD_OUT = (16, 128)
"""Least and most images on which the search estimates, and on which what it found is estimated again."""

_NO_EPOCHS = {"epochs": 0}


@dataclass(frozen=True, slots=True)
class Window:
    """What is known of latencies once the device has been profiled.

    Args:
        low_ms, high_ms: where the search looks.
        budgets_ms: what models are asked to stay within.
        generations: of the search.
    """

    low_ms: float | None
    high_ms: float | None
    budgets_ms: Sequence[float]
    generations: int


def recipe_text(request: Request, device: Mapping[str, Any], pictures: Arrangement, window: Window) -> str:
    """The recipe, whose folder is that of the run.

    Args:
        request: what was asked for.
        device: the table ``[device]``.
        pictures: which images are for what.
        window: where to search.

    Raises:
        DataError: too few images.
    """
    model = request.network
    count = len(pictures.train)
    if count < LEAST_IMAGES:
        raise DataError(
            f"{request.images}: {count} images to work with are too few; give at least {LEAST_IMAGES}, better some hundred"
        )
    channels, height, width = _plane(request)
    data: dict[str, Any] = {
        "name": "images",
        "path": _path(request, request.images),
        "size": height,
        "width": width,
        "resize": request.resize,
        "channels": channels,
        "mean": list(request.mean) or None,
        "std": list(request.std) or None,
        "outputs": model.network.num_classes,
        "names": request.names and _path(request, request.names),
        "holdout": min(max(count // 4, _HELD_OUT[0]), _HELD_OUT[1]),
        "reevaluation": 0.25,
    }
    tables: dict[str, Mapping[str, Any]] = {
        "run": {"name": request.out.name, "threads": available_cores()},
        "network": _network(request),
        "data": data,
        "device": device,
        "latency": {"adaptive": True, "rounds": 12, "whole_networks": 40, "check_networks": 6},
        "supernet": {"mode": "post-training", "calibration_images": _CALIBRATED, "search_images": 96},
        "search": _search(window),
        "retrain": {
            "init": "supernet",
            "budgets_ms": list(window.budgets_ms),
            **dict.fromkeys(("pretrain", "admm", "finetune"), _NO_EPOCHS),
        },
        "export": {
            "formats": ["jcw", "safetensors", *["onnx"] * _has_onnx()],
            "precision": request.precision if request.precision != "float32" else None,
            "normalise": True,
        },
    }
    place = f"jcw run {request.out / 'recipe.toml'} --runs {request.out.parent}"
    return f"# Made by jcw compress; {json.dumps(place)} continues it.\n" + _toml(tables)


def _plane(request: Request) -> tuple[int, int, int]:
    network = request.network.network
    if len(network.input_shape) != 3 or network.input_shape[0] not in (1, 3):
        raise DataError(
            f"{request.model}: takes {network.input_shape}, which no image file is; expected 1 or 3 channels"
        )
    channels, height, width = network.input_shape
    return channels, height, width


def _network(request: Request) -> Mapping[str, Any]:
    if request.is_file:
        source = {"file": _path(request, Path(request.model))}
    else:
        source = {"module": request.model, "code": os.path.relpath(Path.cwd(), request.out.resolve())}
    shape = list(request.shape) if request.shape else None
    if not request.is_file:
        shape = [1, *request.network.network.input_shape]
    weights = request.weights and _path(request, request.weights)
    return {**source, "weights": weights, "shape": shape, "outputs": list(request.outputs) or None}


def _search(window: Window) -> Mapping[str, Any]:
    return {
        "objectives": ["latency", "distance"],
        "population": 16,
        "generations": window.generations,
        "min_latency_ms": window.low_ms,
        "max_latency_ms": window.high_ms,
    }


def _path(request: Request, path: Path) -> str:
    """A path as the recipe, which lies in the run's folder, has to have it."""
    if not str(path).isprintable():
        raise DataError(f"{path}: characters in its name cannot stand in a recipe; rename it")
    return os.path.relpath(path.resolve(), request.out.resolve())


def _has_onnx() -> bool:
    return importlib.util.find_spec("onnx") is not None


def _toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of numbers, texts, lists and tables of one line; keys without a value are left out."""
    lines = []
    for name, table in tables.items():
        lines += [f"\n[{name}]", *(f"{key} = {_value(v)}" for key, v in table.items() if v is not None)]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(v)}" for key, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)

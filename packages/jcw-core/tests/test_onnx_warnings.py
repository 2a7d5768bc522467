"""ONNX files that become another network than they are: half precision and shared weights are warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import WINDOW, model, numbers, onnx, step

from jcw_core.errors import JcwWarning
from jcw_core.formats.onnx_reader import read_onnx

TYPES = {
    "float16": onnx.TensorProto.FLOAT16, "bfloat16": onnx.TensorProto.BFLOAT16, "float64": onnx.TensorProto.DOUBLE,
    "float32": onnx.TensorProto.FLOAT,
}  # fmt: skip


def tensor(name: str, shape: tuple[int, ...], kind: str) -> Any:
    size = {"float64": 8, "float32": 4}.get(kind, 2)
    content = bytes(int(np.prod(shape)) * size)
    return onnx.helper.make_tensor(name, TYPES[kind], shape, content, raw=True)


def warned(path: Path, content: bytes) -> list[str]:
    """What is said of a file, each line once."""
    path.write_bytes(content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_onnx(path)
    assert all(w.category is JcwWarning for w in caught)
    found = [str(w.message) for w in caught]
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in found)
    return found


@settings(max_examples=60)
@given(data=st.data())
def test_any_precision_but_single_is_warned_of(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, 4))
    kinds = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=count, max_size=count))
    source = data.draw(st.sampled_from(list(TYPES)))
    steps = [
        step("Conv", "x" if not i else f"v{i - 1}", f"w{i}", name=f"conv{i}", to=f"v{i}", **WINDOW)
        for i in range(count)
    ]
    made = model(steps, [tensor(f"w{i}", (4, 4, 3, 3), kind) for i, kind in enumerate(kinds)])
    made.graph.input[0].type.tensor_type.elem_type = TYPES[source]
    lines = warned(tmp_path_factory.mktemp("onnx") / "net.onnx", made.SerializeToString())
    others = {source, *kinds} - {"float32"}
    assert len(lines) == bool(others)
    assert all(kind in line for line in lines for kind in others)
    assert all("prices are those of float32" in line for line in lines)


@settings(max_examples=60)
@given(
    users=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    through=st.lists(st.booleans(), min_size=7, max_size=7),
)
def test_weights_of_several_nodes_are_warned_of(
    tmp_path_factory: pytest.TempPathFactory, users: list[int], through: list[bool]
) -> None:
    """By the same name or, as exporters write it, through an Identity."""
    steps = []
    for i, weight in enumerate(users):
        name = f"w{weight}"
        if through[i]:
            steps.append(step("Identity", name, name=f"same{i}", to=f"copy{i}"))
            name = f"copy{i}"
        steps.append(step("Conv", "x" if not i else f"v{i - 1}", name, name=f"conv{i}", to=f"v{i}", **WINDOW))
    tensors = [tensor(f"w{weight}", (4, 4, 3, 3), "float32") for weight in set(users)]
    lines = warned(tmp_path_factory.mktemp("onnx") / "net.onnx", model(steps, tensors).SerializeToString())
    shared = {weight for weight in users if users.count(weight) > 1}
    assert len(lines) == len(shared)
    for weight in shared:
        names = [f"'conv{i}'" for i, used in enumerate(users) if used == weight]
        assert any(all(name in line for name in names[:4]) and "share a weight" in line for line in lines)


def test_equal_batch_norms_that_are_stored_once(read_model: Callable[..., Any]) -> None:
    norms = [step("BatchNormalization", source, "one", "one", "one", "one", name=name, to=name) for source, name in (("x", "a"), ("a", "b"))]  # fmt: skip
    network = read_model(norms, [numbers("one", np.ones(4))])
    assert sum(node.op == "batch_norm" for node in network) == 2

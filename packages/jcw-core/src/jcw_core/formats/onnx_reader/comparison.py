"""Whether a network computes what the ONNX file computes that it was read from."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jcw_core.errors import FormatError, JcwError, JcwWarning
from jcw_core.formats.onnx_reader.file import cut
from jcw_core.formats.onnx_reader.graph import Graph
from jcw_core.formats.onnx_reader.runtimes import Runtime, evaluate, runtimes
from jcw_core.formats.onnx_reader.translation import Translation
from jcw_core.formats.onnx_writer import to_onnx
from jcw_core.network.model import Model

if TYPE_CHECKING:
    from onnx import ModelProto

TOLERANCE = 1e-4
"""Largest difference between the network's outputs and the file's, as a share of the largest output."""
_COARSE = 2e-2
"""The same for a file in half precision, which rounds to three digits at every step."""


def compare(path: Path, file: ModelProto, graph: Graph, net: Translation, model: Model) -> None:
    """Compare a network with its file, for one image of noise. A ``JcwWarning`` says where that is not possible.

    Args:
        path: of the file.
        file: its content, which is cut to what the network holds.
        graph: the same as operators.
        net: its translation.
        model: what came of it.

    Raises:
        FormatError: they compute something else; names the first node that differs. The message does not name the file.
    """
    image = _noise(graph)
    cut(file, path.parent, image.shape, graph.outputs)
    ours = to_onnx(model)
    reasons = []
    for name, runtime in runtimes().items():
        try:
            wanted = np.concatenate(evaluate(runtime, file, image), axis=1)
            found = np.concatenate(evaluate(runtime, ours, image.astype(np.float32)), axis=1)
        except JcwError as error:
            reasons.append(f"{name}: {error}")
            continue
        if not _differ(found, wanted, graph):
            return
        first = next(_different_nodes(runtime, file, ours, graph, net, image), "")
        raise FormatError(
            f"the network computes something else than the file, by {name}{first}; this is a fault of the import"
        )
    warnings.warn(
        f"{path}: is not compared with its network, as nothing here runs it ({'; '.join(reasons)})",
        JcwWarning,
        stacklevel=3,
    )


def _noise(graph: Graph) -> NDArray[Any]:
    rng, shape = np.random.default_rng(0), (graph.batch, *graph.input_shape)
    if graph.precision in ("float16", "float32", "float64"):
        return rng.normal(size=shape).astype(graph.precision)
    return rng.integers(0, 128, shape).astype(graph.precision if "int" in graph.precision else "float32")


def _differ(found: NDArray[Any], wanted: NDArray[Any], graph: Graph) -> bool:
    """Whether two arrays (images, values) are further apart than rounding explains."""
    if found.shape != wanted.shape:
        return True
    halves = any(constant.precision == "float16" for constant in graph.constants.values())
    tolerance = _COARSE if halves or graph.precision == "float16" else TOLERANCE
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    if same.all():
        return False
    with np.errstate(invalid="ignore"):
        worst = np.where(same, 0.0, np.abs(found - wanted)).max()
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-12)
    return not worst <= tolerance * largest


def _different_nodes(
    runtime: Runtime, file: ModelProto, ours: ModelProto, graph: Graph, net: Translation, image: NDArray[Any]
) -> Iterator[str]:
    """Where the two differ, the first node first, each as the end of a sentence."""
    from onnx import ValueInfoProto

    made = {name for node in ours.graph.node for name in node.output}
    nodes = {
        value: operator
        for operator in graph.operators
        for value in operator.outputs
        if net.made(value) in made
    }
    del file.graph.output[:]
    del ours.graph.output[:]
    file.graph.output.extend(ValueInfoProto(name=value) for value in nodes)
    ours.graph.output.extend(ValueInfoProto(name=net.made(value)) for value in dict.fromkeys(nodes))
    try:
        pairs = zip(
            nodes.values(),
            evaluate(runtime, ours, image.astype(np.float32)),
            evaluate(runtime, file, image),
            strict=True,
        )
    except JcwError:
        return
    for operator, found, wanted in pairs:
        if _differ(found, wanted, graph):
            yield f", first at node {operator.name!r} ({operator.op})"

"""Fused layers: the operations of a network as a device times them.

Batch norm folds into the convolution before it; a residual add and an activation happen while the
accumulators are in registers. A depthwise convolution belongs to the layer of the 1 x 1 convolution before
it, since an engine may run both a few channels at a time, so that what lies between them need not go to
memory: what the two cost is not the sum of what each costs. The latency model costs fused layers; an engine
is given their parts and decides itself which of them it runs together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from jcw_core.network.derived import derived
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import ACTIVATIONS, CONVOLUTIONS, SLOPES, dilation_of, integer, pair
from jcw_core.network.problem import LayerProblem

_STRIDES = {
    **dict.fromkeys((*CONVOLUTIONS, "max_pool", "avg_pool"), "stride"),
    **dict.fromkeys(("resize_nearest", "resize_bilinear"), "scale"),
    "pixel_shuffle": "factor",
}
"""What a problem calls the stride, by operation."""

_FUSES = frozenset({"conv2d", "linear", "batch_norm"})
_TAKES_ACTIVATION = _FUSES | {"add", "mul"}


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """One operation with what is fused into it.

    Args:
        node: the operation itself; its name is the layer's name.
        batch_norm: the batch norm that folds into it.
        residual: the node whose output is added before the activation.
        activation: operation name, or ``""``; the node is the last that is fused, unless ``then`` follows.
        inputs: nodes that it reads, the residual left out. Each is some layer's ``output``.
        output: the node whose value it computes.
        then: the depthwise convolution that runs on what is described so far, with what is fused into
            that; it makes the layer's ``output``.
    """

    node: Node
    batch_norm: Node | None
    residual: str | None
    activation: str
    inputs: tuple[str, ...]
    output: str
    then: FusedLayer | None = None

    def __repr__(self) -> str:
        fused = (
            "batch_norm" if self.batch_norm else "",
            "residual" if self.residual else "",
            self.activation,
        )
        then = f", then {self.then!r}" if self.then else ""
        return f"<FusedLayer {self.name!r}: {' + '.join(filter(None, (self.node.op, *fused)))}{then}>"

    @property
    def name(self) -> str:
        """The name of its operation, the first one if there are two."""
        return self.node.name

    @property
    def parts(self) -> tuple[FusedLayer, ...]:
        """Itself without ``then``, and ``then``: layers of one operation each, in the order in which they run."""
        if self.then is None:
            return (self,)
        return replace(self, output=self.then.inputs[0], then=None), self.then


@derived
def fuse(network: Network) -> tuple[FusedLayer, ...]:
    """The fused layers of a network in an order that can be executed; ``input`` and ``output`` have none."""
    layers: list[FusedLayer] = []
    made: dict[str, int] = {}
    for node in network:
        if node.op in ("input", "output"):
            continue
        index = _host(network, node, layers, made)
        if index is None:
            layers.append(FusedLayer(node, None, None, "", node.inputs, node.name))
            index = len(layers) - 1
        else:
            layers[index] = _absorb(layers[index], node)
        made[node.name] = index
    return tuple(layers)


def _host(network: Network, node: Node, layers: list[FusedLayer], made: dict[str, int]) -> int | None:
    """The layer into which ``node`` fuses, or None."""
    sources = [name for name in node.inputs if name in made]
    if not sources:
        return None
    index = max(made[name] for name in sources)
    if layers[index].output not in node.inputs or len(network.consumers[layers[index].output]) != 1:
        return None
    if _is_second(network, layers[index], node):
        return index
    layer = layers[index].then or layers[index]
    if layer.activation:
        return None
    op = layer.node.op
    if node.op == "batch_norm":
        fits = op in CONVOLUTIONS and layer.batch_norm is None and layer.residual is None
    elif node.op == "add":
        other = [name for name in node.inputs if name != layer.output]
        fits = op == "conv2d" and layer.residual is None and len(other) == 1
    else:
        # The values of a vector are no planes with a slope each.
        slopes = node.op in SLOPES and (op in _FUSES or prod(network.shapes[node.name][1:]) > 1)
        fits = (node.op in ACTIVATIONS or slopes) and op in _TAKES_ACTIVATION
    return index if fits else None


def _is_second(network: Network, layer: FusedLayer, node: Node) -> bool:
    """True for a depthwise convolution that an engine may run together with the layer before it."""
    if not network.is_depthwise(node) or pair(node.attributes, "kernel_size") == (1, 1):
        return False
    if layer.node.op != "conv2d" or layer.residual is not None or layer.then is not None:
        return False
    window = tuple(layer.node.attributes[key] for key in ("kernel_size", "stride", "padding"))
    return window == ((1, 1), (1, 1), (0, 0)) and layer.node.attributes["groups"] == 1


def _absorb(layer: FusedLayer, node: Node) -> FusedLayer:
    if layer.then is not None:
        return replace(layer, then=_absorb(layer.then, node), output=node.name)
    if node.op == "conv2d":
        return replace(layer, then=FusedLayer(node, None, None, "", node.inputs, node.name), output=node.name)
    if node.op == "batch_norm":
        return replace(layer, batch_norm=node, output=node.name)
    if node.op == "add":
        other = next(name for name in node.inputs if name != layer.output)
        return replace(layer, residual=other, output=node.name)
    return replace(layer, activation=node.op, output=node.name)


def problem_of(network: Network, layer: FusedLayer, density: float = 1.0) -> LayerProblem:
    """What a device has to time for one fused layer of a network.

    Args:
        network: the one that the layer is of, or that one cut down to an architecture. Layers are better
            taken at full width: of one channel, a depthwise convolution is like any other.
        layer: of ``fuse``.
        density: share of its weights kept; a depthwise convolution that it ends in is never pruned.
    """
    node = network[layer.name]
    first, out = network.shapes[layer.inputs[0]], network.shapes[layer.parts[0].output]
    windowed = "kernel_size" in node.attributes
    one = (1, 1)
    return LayerProblem(
        op="scale" if _is_scale(network, layer) else node.op,
        in_channels=sum(network.shapes[name][0] for name in layer.inputs)
        if node.op == "concat"
        else first[0],
        in_height=first[1] if len(first) == 3 else 1,
        in_width=first[2] if len(first) == 3 else 1,
        out_channels=out[0] if len(out) == 3 else prod(out),
        kernel_size=pair(node.attributes, "kernel_size") if windowed else one,
        stride=_stride(node),
        padding=_padding(node) if windowed else (0, 0),
        groups=integer(node.attributes, "groups") if node.op in CONVOLUTIONS else 1,
        density=density,
        activation="prelu" if layer.activation in SLOPES else layer.activation,
        residual=layer.residual is not None,
        then=problem_of(network, layer.then) if layer.then is not None else None,
        dilation=dilation_of(node.attributes),
        output_padding=_amounts(node, "output_padding"),
        size=_amounts(node, "size"),
    )


def _stride(node: Node) -> tuple[int, int]:
    key = _STRIDES.get(node.op)
    if key == "factor":
        return integer(node.attributes, key), integer(node.attributes, key)
    return pair(node.attributes, key) if key is not None and key in node.attributes else (1, 1)


def _amounts(node: Node, key: str) -> tuple[int, int]:
    return pair(node.attributes, key) if key in node.attributes else (0, 0)


def _padding(node: Node) -> tuple[int, ...]:
    padding = node.attributes["padding"]
    assert isinstance(padding, tuple)
    return padding


def _is_scale(network: Network, layer: FusedLayer) -> bool:
    return layer.node.op == "mul" and network.shapes[layer.inputs[1]] != network.shapes[layer.inputs[0]]

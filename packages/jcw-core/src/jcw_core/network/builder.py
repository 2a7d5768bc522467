"""``NetworkBuilder``: writes a network down in the order of its table."""

from __future__ import annotations

from collections.abc import Sequence

from jcw_core.errors import NetworkError
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import OPERATIONS, Attribute, Shape


class NetworkBuilder:
    """Writes a network down in the order of its table.

    Every method appends one node and returns its name, to be handed to the next. ``source``
    defaults to the node added last.
    """

    def __init__(self, name: str, input_shape: Sequence[int]) -> None:
        self._name = name
        self._nodes = [Node("input", "input", (), {"shape": tuple(input_shape)})]
        self._shapes: dict[str, Shape] = {"input": tuple(input_shape)}

    @property
    def last(self) -> str:
        """Name of the node added last."""
        return self._nodes[-1].name

    def node(self, name: str) -> Node:
        """A node that was added, by name."""
        return next(node for node in reversed(self._nodes) if node.name == name)

    def channels(self, name: str) -> int:
        """Channels (or features) of a node's output."""
        return self._shapes[name][0]

    def shape(self, name: str) -> Shape:
        """Shape of a node's output, without the batch axis."""
        return self._shapes[name]

    def add(self, name: str, op: str, *sources: str, **attributes: Attribute) -> str:
        """Append a node of any kind; see the other methods for the common ones."""
        node = Node(name, op, sources or (self.last,), attributes)
        try:
            shape = OPERATIONS[op].shape(node.attributes, [self._shapes[s] for s in node.inputs])
        except NetworkError as error:
            raise NetworkError(f"{self._name}: node {name!r} ({op}): {error}") from None
        self._nodes.append(node)
        self._shapes[name] = shape
        return name

    def conv(
        self,
        name: str,
        out_channels: int,
        kernel: int,
        stride: int = 1,
        *,
        source: str | None = None,
        padding: int | None = None,
        groups: int = 1,
        bias: bool = False,
    ) -> str:
        """A convolution; ``padding`` defaults to ``kernel // 2``."""
        pad = kernel // 2 if padding is None else padding
        return self.add(
            name,
            "conv2d",
            source or self.last,
            out_channels=out_channels,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=(pad, pad),
            groups=groups,
            bias=bias,
        )

    def depthwise(self, name: str, kernel: int, stride: int = 1, *, source: str | None = None) -> str:
        """A depthwise convolution, one filter per channel."""
        channels = self.channels(source or self.last)
        return self.conv(name, channels, kernel, stride, source=source, groups=channels)

    def batch_norm(self, name: str, *, source: str | None = None, eps: float = 1e-5) -> str:
        """Batch normalisation over channels."""
        return self.add(name, "batch_norm", source or self.last, eps=eps)

    def pool(
        self, name: str, op: str, kernel: int, stride: int, padding: int = 0, *, source: str | None = None
    ) -> str:
        """``max_pool`` or ``avg_pool``."""
        return self.add(
            name,
            op,
            source or self.last,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=(padding, padding),
        )

    def linear(self, name: str, out_features: int, *, source: str | None = None, bias: bool = True) -> str:
        """A fully connected layer on a flat input."""
        return self.add(name, "linear", source or self.last, out_features=out_features, bias=bias)

    def build(self, *, output: str | None = None) -> Network:
        """Close the graph with its output node, which reads ``output``, by default the node added last."""
        node = Node("output", "output", (output or self.last,))
        return Network(self._name, (*self._nodes, node))

    def build_joined(self, outputs: Sequence[str], names: Sequence[str] = ()) -> Network:
        """Close the graph with an output node that reads one node, or several that are flattened and joined in this order.

        Args:
            outputs: nodes.
            names: what each output is called, where that is known; see ``jcw_core.network.outputs``. They are left out unless
                each has one of its own.
        """
        if len(outputs) == 1:
            return self.build(output=outputs[0])
        told = [name for name in dict.fromkeys(names) if name and f"outputs.{name}" not in self._shapes]
        if len(told) < len(outputs):
            told = [str(number) for number in range(len(outputs))]
        flat = [self.add(f"outputs.{name}", "flatten", end) for name, end in zip(told, outputs, strict=True)]
        return self.build(output=self.add("outputs", "concat", *flat))

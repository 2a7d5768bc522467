"""A backbone: two convolutions and a residual one."""

from __future__ import annotations

from collections.abc import Sequence

from jcw_core.hookspecs import hookimpl
from jcw_core.network import Network, NetworkBuilder
from jcw_core.space import Bound


class ToyNet:
    """Registered as ``toynet``."""

    name = "toynet"
    bounds = (Bound("stem", width=0.5, density=1.0), Bound("*", width=0.25, density=0.2))

    def build(
        self, *, num_classes: int = 1000, width: float = 1.0, input_size: int = 224, in_channels: int = 3
    ) -> Network:
        """Return the network."""
        channels = max(4, round(4 * width) * 4)
        net = NetworkBuilder("toynet", (in_channels, input_size, input_size))
        net.conv("stem", channels, 3, 2)
        net.batch_norm("stem_bn")
        start = net.add("stem_relu", "relu")
        net.conv("conv", channels, 3)
        net.batch_norm("conv_bn")
        net.add("sum", "add", net.last, start)
        net.add("relu", "relu")
        net.conv("wide", 2 * channels, 1, 2)
        net.add("pool", "global_avg_pool")
        net.add("flatten", "flatten")
        net.linear("fc", num_classes)
        return net.build()


@hookimpl
def jcw_register_backbones() -> Sequence[ToyNet]:
    """One family of networks."""
    return [ToyNet()]

"""``jcw networks NETWORK``: the layers of one network, and what a search may take from them."""

from __future__ import annotations

from collections.abc import Iterator

from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.space.whole import fixed_layers, in_words, layers_of, unpruned_layers


def describe(network: Network) -> Iterator[str]:
    """A line for each layer, then why some stay whole.

    Layers of one group lose the same channels; a layer behind a concat is in several.
    """
    fixed, unpruned, layout = fixed_layers(network), unpruned_layers(network), couple(network).layout
    width = max(map(len, layers_of(network)), default=0) + 2
    yield f"{'layer':{width}}{'channels':>9}{'MACs':>16}  {'may lose':18}  cut with"
    for layer in layers_of(network):
        kept = {"channels": fixed, "weights": unpruned}
        may = ", ".join(what for what, reasons in kept.items() if layer not in reasons) or "nothing"
        groups = ", ".join(dict.fromkeys(segment.group for segment in layout[layer]))
        shown = "" if layer in fixed else f"  {groups}"
        yield f"{layer:{width}}{network.shapes[layer][0]:>9}{network.node_macs(network[layer]):>16,}  {may:18}{shown}".rstrip()
    yield from (f"kept whole: {line}" for line in in_words(fixed, unpruned))

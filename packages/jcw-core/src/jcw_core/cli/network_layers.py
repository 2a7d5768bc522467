"""``jcw networks NETWORK``: the layers of one network, and what a search may take from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jcw_core.formats.network_file import SUFFIXES, read_network
from jcw_core.network.channel_groups import couple
from jcw_core.network.graph import Network
from jcw_core.network.model import Model
from jcw_core.recipe.recipe import NetworkOptions
from jcw_core.run.source import MODULE_SHAPE, brought
from jcw_core.space.whole import fixed_layers, in_words, layers_of, unpruned_layers


def brought_by_name(name: str, shape: Sequence[int] | None, outputs: Sequence[str]) -> Network | None:
    """The network of a file or of PACKAGE.MODULE:FUNCTION, looked for where one stands; None for what may be a backbone.

    Raises:
        JcwError: it cannot be read.
    """
    path = Path(name)
    if path.suffix.lower() in SUFFIXES:
        return read_network(path, shape, outputs)
    if ":" not in name or path.exists():
        return None
    wanted = NetworkOptions(module=name, outputs=tuple(outputs))
    found = brought(wanted, tuple(shape or MODULE_SHAPE)[1:], Path.cwd())
    return found.network if isinstance(found, Model) else found


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

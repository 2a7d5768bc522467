"""Networks, search space, hooks and pipeline of JCW: joint channel and weight pruning."""

from typing import TYPE_CHECKING

from jcw_core.lazy import lazily

if TYPE_CHECKING:
    from jcw_core.errors import JcwError as JcwError
    from jcw_core.formats.network_file import read_model as read_model
    from jcw_core.formats.network_file import read_network as read_network
    from jcw_core.hookspecs import hookimpl as hookimpl
    from jcw_core.network.architecture import Architecture as Architecture
    from jcw_core.network.builder import NetworkBuilder as NetworkBuilder
    from jcw_core.network.graph import Network as Network
    from jcw_core.network.model import Model as Model
    from jcw_core.network.node import Node as Node
    from jcw_core.network.shrink import shrink as shrink
    from jcw_core.network.shrink import shrink_weights as shrink_weights
    from jcw_core.recipe.recipe import load_recipe as load_recipe
    from jcw_core.registry import Registry as Registry
    from jcw_core.space.bounds import Bound as Bound
    from jcw_core.space.space import SearchSpace as SearchSpace

    __version__: str

_HOMES = {
    "Architecture": "jcw_core.network.architecture",
    "Bound": "jcw_core.space.bounds",
    "JcwError": "jcw_core.errors",
    "Model": "jcw_core.network.model",
    "Network": "jcw_core.network.graph",
    "NetworkBuilder": "jcw_core.network.builder",
    "Node": "jcw_core.network.node",
    "Registry": "jcw_core.registry",
    "SearchSpace": "jcw_core.space.space",
    "hookimpl": "jcw_core.hookspecs",
    "load_recipe": "jcw_core.recipe.recipe",
    "read_model": "jcw_core.formats.network_file",
    "read_network": "jcw_core.formats.network_file",
    "shrink": "jcw_core.network.shrink",
    "shrink_weights": "jcw_core.network.shrink",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:
    # The command imports this package first, and an interrupt should have its one line before anything slow comes.
    __getattr__, __dir__ = lazily(__name__, _HOMES)

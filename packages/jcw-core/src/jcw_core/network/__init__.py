"""Networks as graphs, and all that follows from one: channel groups, fused layers, layer problems, smaller networks."""

from jcw_core.network.architecture import Architecture
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.channel_groups import ChannelGroup, Coupling, couple
from jcw_core.network.graph import Network
from jcw_core.network.layers import FusedLayer, fuse, problem_of
from jcw_core.network.model import Model
from jcw_core.network.node import Node
from jcw_core.network.operations import OPERATIONS, Operation
from jcw_core.network.problem import LayerProblem
from jcw_core.network.shrink import Weights, kept_macs, shrink, shrink_weights
from jcw_core.network.weight_groups import GROUP_SIZE, density_mask, weight_density

__all__ = [
    "GROUP_SIZE",
    "OPERATIONS",
    "Architecture",
    "ChannelGroup",
    "Coupling",
    "FusedLayer",
    "LayerProblem",
    "Model",
    "Network",
    "NetworkBuilder",
    "Node",
    "Operation",
    "Weights",
    "couple",
    "density_mask",
    "fuse",
    "kept_macs",
    "problem_of",
    "shrink",
    "shrink_weights",
    "weight_density",
]

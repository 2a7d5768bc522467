"""Other people's pruning methods, each a function from a ``Setting`` and budgets to architectures."""

from jcw_rivals.amc import Amc
from jcw_rivals.autoslim import AutoSlim
from jcw_rivals.dmcp import Dmcp
from jcw_rivals.fast_sparse import FastSparse, GradualPruning
from jcw_rivals.halp import Halp
from jcw_rivals.setting import Rival, Setting, Shared, endless
from jcw_rivals.uniform import Uniform
from jcw_rivals.usnet import UniformSandwich

_ALL: tuple[Rival, ...] = (Uniform(), AutoSlim(), Halp(), FastSparse(), Dmcp(), Amc())

RIVALS: dict[str, Rival] = {rival.name: rival for rival in _ALL}
"""Those that choose an architecture, by name. ``UniformSandwich`` and ``GradualPruning`` are ways to train."""

__all__ = [
    "RIVALS",
    "Amc",
    "AutoSlim",
    "Dmcp",
    "FastSparse",
    "GradualPruning",
    "Halp",
    "Rival",
    "Setting",
    "Shared",
    "Uniform",
    "UniformSandwich",
    "endless",
]

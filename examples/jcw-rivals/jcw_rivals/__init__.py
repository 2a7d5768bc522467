"""Other people's pruning methods, each a function from a ``Setting`` and budgets to architectures."""

from jcw_rivals.autoslim import AutoSlim
from jcw_rivals.fast_sparse import FastSparse, GradualPruning
from jcw_rivals.halp import Halp
from jcw_rivals.setting import Rival, Setting
from jcw_rivals.uniform import Uniform
from jcw_rivals.usnet import UniformSandwich

RIVALS: dict[str, Rival] = {rival.name: rival for rival in (Uniform(), AutoSlim(), Halp(), FastSparse())}
"""Those that choose an architecture, by name. ``UniformSandwich`` and ``GradualPruning`` are ways to train."""

__all__ = [
    "RIVALS",
    "AutoSlim",
    "FastSparse",
    "GradualPruning",
    "Halp",
    "Rival",
    "Setting",
    "Uniform",
    "UniformSandwich",
]

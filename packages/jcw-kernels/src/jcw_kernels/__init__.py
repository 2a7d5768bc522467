"""The sparse engine of JCW: compile a pruned network, run it, save and load ``model.jcw``."""

from importlib.metadata import version

from jcw_kernels._engine import available_isas, chosen_isa
from jcw_kernels.calibration import calibrate
from jcw_kernels.peak import peak_gflops
from jcw_kernels.program import Program, StepTime, compile_model, load

__version__ = version("jcw-kernels")

__all__ = [
    "Program",
    "StepTime",
    "available_isas",
    "calibrate",
    "chosen_isa",
    "compile_model",
    "load",
    "peak_gflops",
]

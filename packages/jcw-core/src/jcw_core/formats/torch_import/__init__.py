"""Networks with their weights from torch modules. Needs torch."""

from jcw_core.formats.torch_import.module import from_module

__all__ = ["from_module"]

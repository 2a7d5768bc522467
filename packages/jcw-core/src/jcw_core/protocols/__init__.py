"""What plugins register: one protocol per family, each object carrying its ``name``.

Only types stand here; see ``jcw_core.hookspecs`` for when each hook is called.
"""

from jcw_core.protocols.datasets import Dataset, DatasetPlugin
from jcw_core.protocols.devices import Closable, Device, DeviceInfo, DevicePlugin
from jcw_core.protocols.models import Backbone, Exporter
from jcw_core.protocols.search import Configured, Evaluator, Exact, Objective, Reevaluating, Selection
from jcw_core.protocols.stages import Delegating, Progress, ReportSection, Stage

__all__ = [
    "Backbone",
    "Closable",
    "Configured",
    "Dataset",
    "DatasetPlugin",
    "Delegating",
    "Device",
    "DeviceInfo",
    "DevicePlugin",
    "Evaluator",
    "Exact",
    "Exporter",
    "Objective",
    "Progress",
    "Reevaluating",
    "ReportSection",
    "Selection",
    "Stage",
]

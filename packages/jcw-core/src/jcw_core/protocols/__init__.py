"""What plugins register: one protocol per family, each object carrying its ``name``.

Only types stand here; see ``jcw_core.hookspecs`` for when each hook is called.
"""

from jcw_core.protocols.datasets import Augmented, Augmenting, Dataset, DatasetPlugin, Normalised, Resized
from jcw_core.protocols.devices import (
    Closable,
    Device,
    DeviceInfo,
    DevicePlugin,
    HasPrecision,
    HasProducts,
    TimesLayers,
)
from jcw_core.protocols.importance import Importance
from jcw_core.protocols.models import (
    Backbone,
    Calibration,
    CalibrationMethod,
    ComputesHalf,
    Exporter,
    Precision,
    Products,
    Quantizes,
    StoresWeights,
    WeightType,
)
from jcw_core.protocols.planning import Advising, Checking, Costed, Ending, Planning, Scaling, Showing
from jcw_core.protocols.run import Configured, Objective, Plugins, ReportSection, Run, Summarizing
from jcw_core.protocols.search import Evaluator, Exact, Reevaluating, Selection
from jcw_core.protocols.stages import Delegating, Following, Progress, Spreading, Stage

__all__ = [
    "Advising",
    "Augmented",
    "Augmenting",
    "Backbone",
    "Calibration",
    "CalibrationMethod",
    "Checking",
    "Closable",
    "ComputesHalf",
    "Configured",
    "Costed",
    "Dataset",
    "DatasetPlugin",
    "Delegating",
    "Device",
    "DeviceInfo",
    "DevicePlugin",
    "Ending",
    "Evaluator",
    "Exact",
    "Exporter",
    "Following",
    "HasPrecision",
    "HasProducts",
    "Importance",
    "Normalised",
    "Objective",
    "Planning",
    "Plugins",
    "Precision",
    "Products",
    "Progress",
    "Quantizes",
    "Reevaluating",
    "ReportSection",
    "Resized",
    "Run",
    "Scaling",
    "Selection",
    "Showing",
    "Spreading",
    "Stage",
    "StoresWeights",
    "Summarizing",
    "TimesLayers",
    "WeightType",
]

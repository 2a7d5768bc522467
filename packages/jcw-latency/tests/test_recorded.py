"""The recorded device: what is in a table is answered, what is not is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from latency_samples import SyntheticDevice

from jcw_core.errors import DeviceError
from jcw_core.network import Network
from jcw_core.problem import LayerProblem
from jcw_latency import LatencyTable
from jcw_latency.plan import make_plan
from jcw_latency.recorded import RecordedDevice


def test_recorded_device_answers_what_was_measured(network: Network, table: LatencyTable) -> None:
    device, plan = RecordedDevice(table, Path("table.npz")), make_plan(network, widths=4, densities=5, step=4)
    times = device.measure(plan.problems, rounds=3)
    assert times.shape == (3, len(plan.problems))
    np.testing.assert_allclose(times, SyntheticDevice().measure(plan.problems, rounds=3), rtol=1e-12)
    assert device.describe().cpu == "formula"


def test_recorded_device_says_what_it_lacks(table: LatencyTable, tmp_path: Path) -> None:
    device = RecordedDevice(table, Path("table.npz"))
    with pytest.raises(DeviceError, match=r"table.npz: made for small; it has no layer"):
        device.measure([LayerProblem("conv2d", 3, 99, 99, 16, (3, 3))], rounds=1)
    with pytest.raises(DeviceError, match="cannot run models"):
        device.measure_models([tmp_path], rounds=1)

"""Checkpoints of profiles that ended early: killed, with a dead device, or on a coarser grid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from latency_samples import SyntheticDevice, assert_same_times, measured
from numpy.typing import NDArray

from jcw_core.errors import DeviceError
from jcw_core.network.graph import Network
from jcw_core.network.problem import LayerProblem


class Dying(SyntheticDevice):
    """Args: lives: calls that it answers."""

    lives = 1

    def measure(self, problems: Sequence[LayerProblem], *, rounds: int) -> NDArray[np.float64]:
        if self.lives == 0:
            raise DeviceError("device 'synthetic' died")
        self.lives -= 1
        return super().measure(problems, rounds=rounds)


def test_profile_resumes_after_the_device_died(network: Network, tmp_path: Path) -> None:
    checkpoint = tmp_path / "partial.npz"
    dying, fresh = Dying(), SyntheticDevice()
    with pytest.raises(DeviceError, match="died"):
        measured(network, dying, checkpoint)
    table = measured(network, fresh, checkpoint)
    assert dying.timed
    assert not set(dying.timed) & set(fresh.timed)
    assert_same_times(table, measured(network, SyntheticDevice()))


@pytest.mark.parametrize("change", ["device", "damage"])
def test_a_checkpoint_of_another_device_or_damaged_is_not_used(
    network: Network, tmp_path: Path, change: str
) -> None:
    checkpoint = tmp_path / "partial.npz"
    measured(network, SyntheticDevice(), checkpoint)
    device = SyntheticDevice()
    if change == "damage":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-30])
    if change == "device":
        other = replace(device.describe(), versions={"formula": "2"})
        device.describe = lambda: other  # type: ignore[method-assign]
    measured(network, device, checkpoint)
    assert device.timed


def test_a_finer_grid_takes_over_the_points_of_a_coarser_one(network: Network, tmp_path: Path) -> None:
    checkpoint = tmp_path / "partial.npz"
    coarse, fine = SyntheticDevice(), SyntheticDevice()
    measured(network, coarse, checkpoint, widths=2)
    table = measured(network, fine, checkpoint, widths=4)
    assert not set(coarse.timed) & set(fine.timed)
    assert_same_times(table, measured(network, SyntheticDevice(), widths=4))


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])
import numpy as np
from pathlib import Path
from core_networks import small_resnet
from latency_samples import SyntheticDevice, quick_options
import jcw_latency.profiling.checkpoint as checkpoint
import jcw_latency.profiling.layers as profiling
import jcw_latency.profiling.reference as reference
checkpoint._SAVE_SECONDS = 0.0
reference._BATCH_SIZE = 20

class Slow(SyntheticDevice):
    def measure(self, problems, *, rounds):
        time.sleep(0.05)
        print(len(self.timed), flush=True)
        return super().measure(problems, rounds=rounds)

profiling.profile(small_resnet(width=16), Slow(), quick_options(), rng=np.random.default_rng(0),
                  checkpoint=Path(sys.argv[3]))
"""


def test_killed_profile_resumes(network: Network, tmp_path: Path) -> None:
    here = Path(__file__).parent
    folders = [str(here), str(here.parents[1] / "jcw-core" / "tests")]
    checkpoint = tmp_path / "partial.npz"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, *folders, str(checkpoint)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 100:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    device = SyntheticDevice()
    table = measured(network, device, checkpoint)
    points = table.settings["points"]
    assert 0 < len(device.timed) <= points - 60
    assert_same_times(table, measured(network, SyntheticDevice()))

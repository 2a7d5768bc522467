"""Networks that run end to end: all corners of the space are among them, for the fit as for checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from click.testing import CliRunner
from core_networks import small_resnet
from hypothesis import given
from hypothesis import strategies as st
from latency_samples import CORNERS, Plugin, SyntheticDevice, TextExporter, is_corner, quick_options

from jcw_core.cli.main import build
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.registry import Registry
from jcw_core.space.bounds import Bound
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyTable, profile_space
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.profiling.members import covering_members


@given(st.integers(8, 40), st.floats(0.05, 0.9), st.floats(0.05, 0.9), st.integers(1, 30))
def test_corners_come_first(width: int, narrow: float, sparse: float, count: int) -> None:
    space = SearchSpace.of(small_resnet(width=width), defaults=[Bound("*", width=narrow, density=sparse)])
    members = covering_members(space, count, np.random.default_rng(0))
    assert members.shape == (count, space.dimensions)
    for member, corner in zip(members, CORNERS, strict=False):
        assert is_corner(space, space.architecture(member), *corner)
    assert ((members >= space.low) & (members <= space.maximum)).all()


def test_spaces_of_widths_or_densities_alone() -> None:
    network = small_resnet(width=16)
    for kind in ("width", "density"):
        space = SearchSpace.of(network)
        space = SearchSpace(network, tuple(v for v in space.variables if v.kind == kind))
        assert covering_members(space, 9, np.random.default_rng(0)).shape == (9, space.dimensions)


def test_profile_and_check_run_the_corners(
    network: Network, table: LatencyTable, table_file: Path, exported: list[Architecture], tmp_path: Path
) -> None:
    space = SearchSpace.of(network)
    guarded = GuardedDevice(SyntheticDevice(), 60, TextExporter())
    profile_space(
        space, guarded, quick_options(whole_networks=8), rng=np.random.default_rng(0), folder=tmp_path
    )
    assert all(any(is_corner(space, a, *corner) for a in exported) for corner in CORNERS)
    exported.clear()
    arguments = ["check", str(table_file), "--networks", "8", "--rounds", "1"]
    CliRunner().invoke(build(Registry({"synthetic": Plugin()})), arguments, catch_exceptions=False)
    assert all(any(is_corner(space, a, *corner) for a in exported) for corner in CORNERS)

"""Answers of devices, right or wrong: times of the right shape, or a DeviceError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import json_values
from hypothesis import given
from hypothesis import strategies as st
from latency_samples import SyntheticDevice

from jcw_core.errors import DeviceError
from jcw_core.network.problem import LayerProblem
from jcw_core.protocols import DeviceInfo
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.devices.remote import RemoteDevice
from jcw_latency.devices.ssh import SshOptions

PROBLEMS = [LayerProblem("conv2d", 4, 8, 8, 4), LayerProblem("conv2d", 4, 8, 8, 8)]


class Odd(SyntheticDevice):
    """Answers what it is told to."""

    answer: Any = None

    def measure(self, problems: Any, *, rounds: int) -> Any:
        return self.answer


@given(json_values)
def test_any_answer_of_a_local_device(answer: object) -> None:
    device = Odd()
    device.answer = answer
    try:
        times = GuardedDevice(device, 60).measure(PROBLEMS[:1], 1)
    except DeviceError as error:
        assert "'synthetic'" in str(error)  # noqa: PT017
    else:
        assert (times.shape, times.dtype) == ((1, 1), np.float64)
        assert np.isnan(times).all() or (times > 0).all()


@pytest.mark.parametrize(
    "answer", [[[1.0], [1.0, 2.0]], "fast", {"seconds": 1}, [[10**400, 1]], [[None, "x"]]]
)
def test_answers_that_are_no_times(answer: object) -> None:
    device = Odd()
    device.answer = answer
    with pytest.raises(
        DeviceError, match=r"'synthetic' returned .*, expected times for 1 rounds of 2 layers"
    ):
        GuardedDevice(device, 60).measure(PROBLEMS, 1)


@pytest.mark.parametrize("info", [None, {"name": "phone"}, "phone"])
def test_a_device_that_does_not_describe_itself(info: object) -> None:
    device = SyntheticDevice()
    device.describe = lambda: info  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(DeviceError, match=r"SyntheticDevice describes itself as .* expected a DeviceInfo"):
        GuardedDevice(device, 60)


@pytest.mark.parametrize(
    "change",
    [{"name": None}, {"cpu": 7}, {"isa": ["avx2"]}, {"threads": 0}, {"threads": True}, {"threads": 1.0},
     {"versions": None}, {"versions": ["1"]}, {"versions": {"engine": 1}}, {"versions": {1: "1"}}],
)  # fmt: skip
def test_impossible_descriptions_of_a_device(change: dict[str, Any]) -> None:
    (key,) = change
    with pytest.raises(DeviceError, match=f"{key} is .*, expected "):
        DeviceInfo(**{"name": "phone", "cpu": "c", "isa": "i", "threads": 1, **change})


class Teller:
    """A way to a machine whose program prints ``printed`` when it times."""

    name = "teller"

    def __init__(self, printed: str) -> None:
        self.printed = printed

    def run(self, command: str) -> str:
        described = '{"cpu": "c", "isa": "i", "version": "1"}'
        return described if " describe " in command else self.printed if " layers " in command else ""

    def push(self, source: Path, target: str) -> None:
        pass

    def close(self) -> None:
        pass


def remote(printed: str) -> RemoteDevice:
    return RemoteDevice("ssh", Teller(printed), SshOptions(host="h", program=Path(__file__), folder="f"))


GOOD = {"first": 0, "round": 0, "seconds": [1, None]}


@given(st.sampled_from([*GOOD, ""]), json_values)
def test_any_line_that_a_remote_program_prints(key: str, value: object) -> None:
    line = json.dumps({**GOOD, key: value} if key else value)
    try:
        times = remote(f"{json.dumps(GOOD)}\n{line}\n").measure(PROBLEMS, rounds=1)
    except DeviceError as error:
        assert "teller: jcw-device printed" in str(error)  # noqa: PT017
    else:
        assert times.shape == (1, 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seconds", ["x"]), ("seconds", "12"), ("seconds", [10**400, 1]), ("seconds", [[1], 2]), ("seconds", []),
        ("seconds", 7), ("seconds", {"1": 2}), ("round", float("inf")), ("round", 0.0), ("round", 1), ("round", -1),
        ("first", 1), ("first", -1), ("first", 10**400), ("first", "0"), ("first", None),
    ],
)  # fmt: skip
def test_lines_that_are_no_round(key: str, value: object) -> None:
    with pytest.raises(DeviceError, match=r"teller: jcw-device printed .*, which is not a round"):
        remote(json.dumps({**GOOD, key: value})).measure(PROBLEMS, rounds=1)


def test_json_nested_too_deeply_from_a_remote_program() -> None:
    with pytest.raises(DeviceError, match="expected a line of JSON"):
        remote('{"round": ' + "[" * 100_000).measure(PROBLEMS, rounds=1)


def test_a_time_that_failed_is_nan() -> None:
    np.testing.assert_array_equal(remote(json.dumps(GOOD)).measure(PROBLEMS, rounds=1), [[1.0, np.nan]])

"""Processes that cannot meet say why."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist

from jcw_core.errors import JcwError
from jcw_core.ranks import RankError
from jcw_core.training.joined import Joined


@pytest.fixture
def port() -> Iterator[int]:
    """One that another program listens at."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.fixture
def first(port: int) -> dict[str, str]:
    """What a launcher tells the first of two processes."""
    return {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path, first: dict[str, str], port: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jcw_core", "run", "recipe.toml"],
        cwd=tmp_path,
        env=os.environ | first,
        capture_output=True,
        text=True,
        timeout=600,
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("jcw: ")]
    assert done.returncode == 2, done.stderr
    assert len(told) == 1, done.stderr
    assert f"port {port}," in told[0]
    assert "is taken by another program" in told[0]
    assert told[0].endswith("torchrun --master-port (see docs/scaling.md)")


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        ("errno: 98 - Address already in use", JcwError, "is taken"),
        ("timed out after 300 s", RankError, "another process of this run has ended"),
    ],
)
def test_what_torch_says_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
    first: dict[str, str],
    raised: str,
    kind: type[JcwError],
    said: str,
) -> None:
    def fail(*arguments: object) -> None:
        raise dist.DistNetworkError(raised)

    for name, value in first.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(dist, "rendezvous", fail)
    with pytest.raises(JcwError, match=said) as caught:
        Joined()
    assert type(caught.value) is kind

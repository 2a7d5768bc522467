"""Programs in other processes and on signals: forks, pools, copies, Ctrl-C."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from kernel_samples import conv_network, weights_for

from jcw_core.network.model import Model
from jcw_kernels import Program, available_isas, compile_model

HEAD = """
import os, signal, sys, threading, time
import numpy as np
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.model import Model
from jcw_kernels import compile_model

def program(width, depth, threads):
    b = NetworkBuilder("net", (1, 1, 1))
    for i in range(depth):
        b.conv(f"conv{i}", width, 1, bias=True)
    b.conv("last", 1, 1, bias=True)
    network = b.build()
    weights = {name: np.full(shape, 0.01, np.float32) for name, shape in network.parameter_shapes.items()}
    return compile_model(Model(network, weights), threads=threads)
"""

FORKS = """
made = program(64, 3, {threads})
images = np.ones((8, 1, 1, 1), np.float32)
want = made.run(images).tobytes()
busy = threading.Event()

def keep_running():
    while not busy.is_set():
        made.run(images)

others = [threading.Thread(target=keep_running) for _ in range({others})]
for other in others:
    other.start()
for i in range({forks}):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        right = i % 2 or (made.run(images).tobytes() == want and made.profile(rounds=1))
        del made
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert made.run(images).tobytes() == want
busy.set()
for other in others:
    other.join()
"""

ENDLESS = {
    "run": "made.run(images)",
    "profile": "made._engine.profile(images[:1], 4_000_000)",
    "time": "made._engine.time(0, images[:1], 1_000_000)",
}
"""Minutes or hours of work each."""

INTERRUPT = """
made = program(1024, 3, {threads})
images = np.ones((5_000_000, 1, 1, 1), np.float32)

def interrupt():
    time.sleep(0.5)  # by then the main thread is within the call
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
{call}
"""


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_forked_children_run_programs(threads: int, others: int) -> None:
    """Also while other threads run it, and when they only delete it."""
    code = HEAD + FORKS.format(threads=threads, others=others, forks=6)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", ENDLESS)
def test_ctrl_c_ends_long_calls(call: str, threads: int) -> None:
    code = HEAD + INTERRUPT.format(threads=threads, call=ENDLESS[call])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


@pytest.fixture
def program(rng: np.random.Generator) -> Program:
    network = conv_network((3, 9, 8), 6, (3, 3), padding=(1, 1), activation="relu")
    return compile_model(Model(network, weights_for(network, rng, 0.5)), threads=2, isa=available_isas()[-1])


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies_run_alone(
    make: Callable[[Program], Program], program: Program, rng: np.random.Generator
) -> None:
    images = rng.standard_normal((2, 3, 9, 8), dtype=np.float32)
    want = program.run(images).tobytes()
    made = make(program)
    assert (made.threads, made.isa, made.input_shape) == (2, program.isa, (3, 9, 8))
    del program
    assert made.run(images).tobytes() == want


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_of_processes_run_programs(method: str, program: Program, rng: np.random.Generator) -> None:
    images = rng.standard_normal((4, 3, 9, 8), dtype=np.float32)
    want = program.run(images)
    with ProcessPoolExecutor(2, mp_context=get_context(method)) as pool:
        got = list(pool.map(Program.run, [program] * 4, np.split(images, 4)))
    np.testing.assert_array_equal(np.concatenate(got), want)

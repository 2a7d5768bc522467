"""``jcw doctor``: what this machine and this installation can do, and what is missing for what."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from jcw_core.cli.text import as_json, echo, echo_json
from jcw_core.errors import JcwError
from jcw_core.providers import installed_version
from jcw_core.registry import Registry


@dataclass(frozen=True)
class Finding:
    """Something that is there, or is not.

    Args:
        name: of a package, a program or a part of the machine.
        found: its version or what it is; none where it is missing.
        purpose: what it is for.
        remedy: how to get it.
    """

    name: str
    found: str | None
    purpose: str
    remedy: str = ""


PACKAGES = {
    "jcw-latency": "profiling devices, predicting latency",
    "jcw-kernels": "running pruned networks; the device host",
    "jcw-search": "searching for the front",
    "jcw-retrain": "training what was found",
    "torch": "supernets, training, importing modules",
    "Pillow": "reading images",
    "onnx": "reading and writing ONNX",
    "safetensors": "reading and writing weights",
    "matplotlib": "plots of jcw check and jcw table",
}
"""What each distribution is for."""

EXTRAS = {
    "torch": "jcw-core[supernet]",
    "safetensors": "jcw-core[safetensors]",
    "Pillow": "jcw-core[images]",
    "onnx": "jcw-core[onnx]",
    "matplotlib": "jcw-latency[plot]",
}
"""The extra of our own that brings a distribution in a version that fits."""

PROGRAMS = {
    "ssh": ("boards that are reached by ssh", "install OpenSSH's client"),
    "adb": ("Android phones", "install Android's platform tools"),
    "cmake": ("building jcw-device for other machines", "pip install cmake"),
}
"""What each program is for, and where it comes from."""

GPU_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""One of these is there where a GPU can be used: NVIDIA's, Windows' for Linux, AMD's."""

_PATIENCE_S = 60


def examine(registry: Registry) -> Iterator[Finding]:
    """Everything that is looked at, the machine first."""
    yield Finding("machine", f"{platform.machine()}, {platform.system()}", "everything")
    yield Finding("Python", platform.python_version(), "everything")
    yield Finding("processors", str(len(os.sched_getaffinity(0))), "threads, trainings side by side")
    yield _host(registry)
    yield _gpu()
    for name, purpose in PACKAGES.items():
        yield Finding(name, installed_version(name), purpose, f"pip install '{EXTRAS.get(name, name)}'")
    for name, (purpose, remedy) in PROGRAMS.items():
        yield Finding(name, shutil.which(name), purpose, remedy)
    for name, reason in registry.failures.items():
        yield Finding(f"plugin {name}", None, "whatever it registers", f"it fails to load: {reason}")


def _host(registry: Registry) -> Finding:
    """The instruction set that the engine uses here."""
    name, purpose = "engine", "running and timing models on this machine"
    if "host" not in registry.devices:
        return Finding(name, None, purpose, "pip install jcw-kernels")
    host = registry.devices["host"]
    try:
        info = host.open(host.options()).describe()
    except JcwError as error:
        return Finding(name, None, purpose, str(error))
    return Finding(name, f"{info.isa} on {info.cpu}", purpose)


def _gpu() -> Finding:
    """What torch says of GPUs; it is not asked where there is no driver of one, as that would take seconds."""
    name, purpose = "GPU", "training faster"
    if not any(map(os.path.exists, GPU_DRIVERS)):
        return Finding(name, None, purpose, "there is no driver of one; trainings use the processor")
    torch = installed_version("torch")
    if torch is None:
        return Finding(name, None, purpose, f"pip install '{EXTRAS['torch']}'")
    ask = [sys.executable, "-P", "-m", "jcw_core.training.gpus"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return Finding(
            name, None, purpose, f"torch has not answered for {_PATIENCE_S} s; see what nvidia-smi says"
        )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        return Finding(name, None, purpose, f"torch {torch} fails ({reason:.200}); install it again")
    if not done.stdout.strip():
        remedy = f"torch {torch} finds none; install one that is built for the driver that nvidia-smi names"
        return Finding(name, None, purpose, remedy)
    return Finding(name, "; ".join(done.stdout.split("\n")[:-1]), purpose)


@click.command()
@as_json
@click.pass_obj
def doctor(registry: Registry, as_json: bool) -> None:
    """Say what this machine can do, and what is missing."""
    for finding in examine(registry):
        if as_json:
            echo_json([asdict(finding)])
        elif finding.found is not None:
            echo(f"  {finding.name:14}{finding.found}")
        else:
            echo(f"- {finding.name:14}missing, for {finding.purpose}; {finding.remedy}")

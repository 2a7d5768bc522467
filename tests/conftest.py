"""A recipe small enough to run whole in seconds."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import jcw
from PIL import Image
from programs import need

RECIPE = """
[run]
seed = 3
threads = 1

[network]
backbone = "resnet18"
width = 0.125

[data]
name = "image_folder"
path = "images"
size = 16
channels = 1
holdout = 24

[device]
name = "recorded"
table = "table.npz"

[latency]
widths = 2
densities = 2
min_rounds = 2
rounds = 3
check_networks = 3
check_rounds = 3

[supernet]
epochs = 2
batch_size = 32
calibration_images = 64

[search]
population = 8
generations = 4

[retrain]
models = 3
pretrain = { epochs = 1, batch_size = 32, lr = 0.05 }
admm = { epochs = 1, batch_size = 32 }
finetune = { epochs = 1, batch_size = 32 }
"""


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images in three classes, a latency table of this machine, and the recipe."""
    root = tmp_path_factory.mktemp("workspace")
    rng = np.random.default_rng(0)
    for split, count in (("train", 60), ("test", 20)):
        for label in range(3):
            folder = root / "images" / split / f"class{label}"
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = rng.integers(0, 90, (16, 16), dtype=np.uint8)
                pixels[:, 5 * label : 5 * label + 5] += 120
                Image.fromarray(pixels).save(folder / f"{index}.png")
    (root / "recipe.toml").write_text(
        RECIPE.replace('name = "recorded"\ntable = "table.npz"', 'name = "host"')
    )
    done = jcw("run", "recipe.toml", "--until", "profile", cwd=root)
    assert done.returncode == 0, done.stderr
    (root / "runs" / "recipe" / "table.npz").rename(root / "table.npz")
    (root / "recipe.toml").write_text(RECIPE)
    return root


@pytest.fixture
def variant(workspace: Path, tmp_path: Path) -> Callable[..., Path]:
    """Write the recipe with some text replaced, where its data and table are found."""

    def write(*changes: tuple[str, str]) -> Path:
        text = RECIPE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        for name in ("images", "table.npz"):
            (tmp_path / name).symlink_to(workspace / name)
        (tmp_path / "recipe.toml").write_text(text)
        return tmp_path

    return write


ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def aarch64_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``jcw-device`` for ARM, built by the commands of the page."""
    need("cmake", "aarch64-linux-gnu-g++", "qemu-aarch64-static")
    build = tmp_path_factory.mktemp("aarch64")
    page = (ROOT / "docs" / "profiling.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (cmake .*)$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command.replace("build/device", str(build)))
        subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return build / "jcw-device"

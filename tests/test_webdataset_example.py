"""The example package ``jcw-webdataset``: shards as a dataset, read by place."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from jcw_core.errors import DataError
from jcw_core.hookspecs import PROJECT
from jcw_core.options import Location, parse
from jcw_core.protocols import Augmenting, Dataset
from jcw_core.registry import Registry

Image = pytest.importorskip("PIL.Image")

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "jcw-webdataset"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLE)
    import jcw_webdataset

    return jcw_webdataset


def picture(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((9, 12, 3), value, np.uint8)).save(file, format="PNG")
    return file.getvalue()


def shard(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def grow(folder: Path) -> Path:
    """Two shards to train on and one to score, of three classes."""
    shard(folder / "train-0.tar", {"a/1.png": picture(1), "a/1.cls": b"0", "a/2.json": b"{}"})
    shard(folder / "train-1.tar", {"2.cls": b"2\n", "2.png": picture(2), "3.x.png": b"", "4.cls": b"1"})
    shard(folder / "val-0.tar", {"1.png": picture(9), "1.cls": b"1"})
    return folder


def opened(module: ModuleType, split: str = "train", **keys: Any) -> Any:
    (plugin,) = module.jcw_register_datasets()
    return plugin.open(split, parse(plugin.options, {"size": 8, **keys}, Location(EXAMPLE / "README.md")))


def test_shards_are_one_dataset(module: ModuleType, tmp_path: Path) -> None:
    found = opened(module, path=str(grow(tmp_path)))
    assert isinstance(found, Dataset)
    assert (len(found), found.labels.tolist(), found.classes) == (2, [0, 2], ["0", "1", "2"])
    assert found.image_shape == (3, 8, 8)
    assert found.images(np.array([1, 0, 1])).reshape(3, -1).max(axis=1).tolist() == [2, 1, 2]


# In a process of its own, as the library leaves files open, of which pytest warns.
LIBRARY = """
import sys, json, webdataset
folder, images = sys.argv[1], json.load(sys.stdin)
with webdataset.ShardWriter(folder + "/train-%03d.tar", maxcount=4, verbose=0) as writer:
    for number, image in enumerate(images):
        key = f"part.{number % 2}/{number:03}"
        writer.write({"__key__": key, "png": bytes.fromhex(image), "cls": number % 3, "json": {"of": number}})
shards = [f"{folder}/train-{number:03}.tar" for number in range(3)]
samples = list(webdataset.WebDataset(shards, shardshuffle=False))
print(json.dumps([[one["__key__"], one["png"].hex(), int(one["cls"])] for one in samples]))
"""


def test_what_the_library_writes_is_read_as_it_reads_it(module: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("webdataset")
    images = json.dumps([picture(number).hex() for number in range(10)])
    command = [sys.executable, "-c", LIBRARY, str(tmp_path)]
    printed = subprocess.run(command, input=images, capture_output=True, text=True, check=True).stdout
    found = [sample for shard in sorted(tmp_path.glob("*.tar")) for sample in module.listed(shard)]
    assert [[sample.key, sample.read().hex(), sample.label] for sample in found] == json.loads(printed)
    order = np.array([7, 0, 9, 7])
    read = opened(module, path=str(tmp_path)).images(order)
    assert read.reshape(4, -1).max(axis=1).tolist() == order.tolist()


def test_the_splits_agree_on_classes(module: ModuleType, tmp_path: Path) -> None:
    found = opened(module, "test", path=str(grow(tmp_path)))
    assert (found.labels.tolist(), found.classes) == ([1], ["0", "1", "2"])
    (tmp_path / "names.txt").write_text("cat\ndog\n\nfrog\n")
    assert opened(module, path=str(tmp_path), classes=str(tmp_path / "names.txt")).classes == [
        "cat",
        "dog",
        "frog",
    ]


def test_changes_are_drawn_from_what_they_are_given(module: ModuleType, tmp_path: Path) -> None:
    found = opened(module, path=str(grow(tmp_path)))
    assert isinstance(found, Augmenting)
    assert found.augmented is not None
    which = np.array([0, 1])
    first, again = (found.augmented(which, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (2, 3, 8, 8)
    assert opened(module, path=str(tmp_path), augment=False).augmented is None


BAD = {
    "no image": ({"1.cls": b"0"}, "no images in 1 shards"),
    "no class": ({"1.png": b""}, r"train\.tar: 1 has no \.cls file"),
    "no number": ({"1.png": b"", "1.cls": b"cat"}, r"1\.cls holds no number"),
    "below zero": ({"1.png": b"", "1.cls": b"-1"}, r"1\.cls holds no number"),
    "beyond reason": ({"1.png": b"", "1.cls": b"9" * 16}, r"1\.cls holds no number"),
    "too long": ({"1.png": b"", "1.cls": b"1" * 4000}, r"1\.cls holds no number"),
    "twice": ({"1.png": b"", "1.jpg": b"", "1.cls": b"1"}, "two images are called 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_shards_are_named(module: ModuleType, tmp_path: Path, case: str) -> None:
    files, match = BAD[case]
    shard(tmp_path / "train.tar", files)
    with pytest.raises(DataError, match=match):
        opened(module, path=str(tmp_path))


def test_what_cannot_be_read_is_named(module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no shards '\*train\*\.tar'"):
        opened(module, path=str(tmp_path))
    shard(tmp_path / "train.tar", {"1.png": picture(1), "1.cls": b"0"}, "w:gz")
    with pytest.raises(DataError, match="not an uncompressed tar file"):
        opened(module, path=str(tmp_path))
    shard(tmp_path / "train.tar", {"1.png": b"no picture", "1.cls": b"0"})
    with pytest.raises(DataError, match=r"train\.tar/1: not a "):
        opened(module, path=str(tmp_path)).images(np.array([0]))
    (tmp_path / "names.txt").write_text("cat\ncat\n")
    with pytest.raises(DataError, match="no two alike"):
        opened(module, path=str(tmp_path), classes=str(tmp_path / "names.txt"))


def test_a_class_without_a_name_is_refused(module: ModuleType, tmp_path: Path) -> None:
    grow(tmp_path)
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match="2 is of class 2, but there are 2 classes"):
        opened(module, path=str(tmp_path), classes=str(tmp_path / "names.txt"))


def test_a_shard_that_shrank_is_named(module: ModuleType, tmp_path: Path) -> None:
    shard(tmp_path / "train.tar", {"1.cls": b"0", "1.png": picture(1)})
    found = opened(module, path=str(tmp_path))
    (tmp_path / "train.tar").write_bytes((tmp_path / "train.tar").read_bytes()[:1540])
    with pytest.raises(DataError, match="ends within 1; fetch it again"):
        found.images(np.array([0]))


def test_damaged_shards_are_refused_or_read(module: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = grow(tmp_path).joinpath("train-1.tar").read_bytes()
    for _ in range(300):
        damaged = bytearray(whole[: int(rng.integers(0, len(whole)))] if rng.random() < 0.3 else whole)
        for at in rng.integers(0, max(len(damaged), 1), rng.integers(1, 6)):
            damaged[at : at + 1] = bytes([rng.integers(256)])
        (tmp_path / "train-1.tar").write_bytes(damaged)
        with suppress(DataError):
            found = opened(module, path=str(tmp_path))
            found.images(np.arange(len(found)))


def test_the_readme_installs_it_and_its_recipe_is_right(module: ModuleType, tmp_path: Path) -> None:
    pip, *words = shlex.split(re.findall(r"^\$ (.*)$", README, re.MULTILINE)[0])
    assert (pip, words) == ("pip", ["install", "./examples/jcw-webdataset"])
    apart = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", *words, *apart], cwd=ROOT, check=True)
    (entry,) = tmp_path.glob("*.dist-info/entry_points.txt")
    assert f"[{PROJECT}]" in entry.read_text()
    (recipe,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    keys = tomllib.loads(recipe)["data"]
    registry = Registry({"webdataset": module}, installed=False)
    plugin = registry.datasets[keys.pop("name")]
    options = parse(plugin.options, keys, Location(EXAMPLE / "README.md"))
    assert (options.train, options.test) == (plugin.options(path=Path()).train, "*val*.tar")

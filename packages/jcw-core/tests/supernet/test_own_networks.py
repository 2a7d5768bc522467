"""``[network]`` of a recipe with a network of one's own: a torch module, weights, an ONNX file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from core_networks import random_weights, small_resnet
from onnx_models import rich_model
from safetensors.torch import save_file

from jcw_core.datasets.memory import MemoryDataset
from jcw_core.errors import RecipeError
from jcw_core.formats.onnx_reader import read_onnx_model
from jcw_core.hookspecs import hookimpl
from jcw_core.network.graph import Network
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry
from jcw_core.run.context import Context
from jcw_core.run.directory import RunDirectory

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.bn(self.conv(x)))
        return self.fc(x.mean((2, 3)))

class Sorted(Net):
    def forward(self, x):
        return super().forward(x.sort(2).values)

class Branching(Net):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)

def lacks():
    import no_such_thing

def make():
    torch.manual_seed(3)
    return Net()

def fails():
    raise OSError("no such\\nfile")

def number():
    return 7
"""


class Own:
    """Images of 4 x 6 x 6 in ten classes, and a backbone for them."""

    name = "noise"
    bounds = ()

    @dataclass(frozen=True)
    class Options:
        pass

    options = Options

    def open(self, split: str, options: Any) -> MemoryDataset:
        pixels = np.zeros((20, 4, 6, 6), np.uint8)
        return MemoryDataset(tuple("0123456789"), (0.5,) * 4, (0.5,) * 4, pixels, np.arange(20) % 10)

    def build(self, **shape: Any) -> Network:
        assert shape == {"num_classes": 10, "width": 1.0, "input_size": 6, "in_channels": 4}
        document = small_resnet(8, 10).to_json().replace("[3, 8, 8]", "[4, 6, 6]")
        return Network.from_json(document)

    @hookimpl
    def jcw_register_datasets(self) -> list[Own]:
        return [self]

    @hookimpl
    def jcw_register_backbones(self) -> list[Own]:
        return [self]


@pytest.fixture
def context(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Context]:
    """A run of a recipe with the lines of ``[network]`` that are given; its folder has a Python module of its own name."""
    name = f"own_{abs(hash(request.node.nodeid)):x}"
    (tmp_path / f"{name}.py").write_text(MODULE)

    def make(lines: str) -> Context:
        recipe = tmp_path / "recipe.toml"
        text = lines.replace("own:", f"{name}:")
        recipe.write_text(f'[network]\n{text}\n[data]\nname = "noise"\nholdout = 10\n')
        registry = Registry({"own": Own()}, installed=False)
        return Context(load_recipe(recipe, registry), registry, RunDirectory(tmp_path / "run"))

    return make


def state(context: Callable[[str], Context]) -> dict[str, np.ndarray]:
    weights = context('module = "own:make"').weights
    assert weights is not None
    return {name: np.array(array) for name, array in weights.items()}


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)


def test_a_module_brings_its_weights(context: Callable[[str], Context]) -> None:
    run = context('module = "own:make"')
    assert [node.op for node in run.network][1:-1] == [
        "conv2d",
        "batch_norm",
        "relu",
        "global_avg_pool",
        "flatten",
        "linear",
    ]
    torch.manual_seed(3)
    np.testing.assert_array_equal(run.weights["conv.weight"], torch.nn.Conv2d(4, 8, 3).weight.detach())
    assert run.space.dimensions > 0


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".safetensors"])
@pytest.mark.parametrize("source", ['module = "own:make"', 'backbone = "noise"', 'file = "net.json"'])
def test_weights_from_a_file(
    context: Callable[[str], Context], tmp_path: Path, source: str, suffix: str
) -> None:
    (tmp_path / "net.json").write_text(
        Own().build(num_classes=10, width=1.0, input_size=6, in_channels=4).to_json()
    )
    network = context(source).network
    wanted = random_weights(network, np.random.default_rng(0))
    save(tmp_path / f"w{suffix}", {**wanted, "bn.num_batches_tracked": np.array(7)})
    found = context(f'{source}\nweights = "w{suffix}"').weights
    assert found is not None
    assert found.keys() == wanted.keys()
    assert all((found[name] == array).all() for name, array in wanted.items())


@pytest.mark.parametrize(
    "wrap",
    [lambda d: {"state_dict": d, "epoch": 3}, lambda d: {"model": {f"module.{k}": v for k, v in d.items()}}],
)
def test_checkpoints_of_training_scripts(
    context: Callable[[str], Context], tmp_path: Path, wrap: Callable[[Any], Any]
) -> None:
    wanted = state(context)
    torch.save(wrap({k: torch.from_numpy(v + 1) for k, v in wanted.items()}), tmp_path / "w.pth")
    found = context('module = "own:make"\nweights = "w.pth"').weights
    assert all((found[name] == array + 1).all() for name, array in wanted.items())


def test_an_onnx_file_brings_its_weights(context: Callable[[str], Context], tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(rich_model())
    run = context('file = "net.onnx"')
    assert run.network == read_onnx_model(tmp_path / "net.onnx").network
    assert run.weights.keys() == {"stem.weight", "stem.bias", "fc.weight"}


def test_without_weights_there_are_none(context: Callable[[str], Context]) -> None:
    assert context('backbone = "noise"').weights is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda w: w.pop("fc.bias"), r"lacks 'fc.bias'"),
        (lambda w: w.update(extra=w["fc.bias"] + 1), r"has no place for 'extra'"),
        (
            lambda w: w.update({"fc.weight": w["fc.weight"][:3]}),
            r"'fc.weight' is \(3, 8\), expected \(10, 8\)",
        ),
        (lambda w: w["conv.weight"].__setitem__((0, 0), np.nan), r"conv.weight holds NaN or infinity"),
        (lambda w: w["bn.running_var"].__setitem__(1, np.inf), r"bn.running_var holds NaN or infinity"),
    ],
)
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_that_do_not_fit(
    context: Callable[[str], Context], tmp_path: Path, damage: Callable[[Any], Any], message: str, suffix: str
) -> None:
    arrays = state(context)
    damage(arrays)
    save(tmp_path / f"w{suffix}", arrays)
    with pytest.raises(RecipeError, match=rf"\[network\] \w+: .*w{suffix}: .*{message}") as caught:
        _ = context(f'module = "own:make"\nweights = "w{suffix}"').network
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".bin"])
@pytest.mark.parametrize("content", [b"", b"nothing", None])
def test_files_that_hold_no_weights(
    context: Callable[[str], Context], tmp_path: Path, suffix: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / f"w{suffix}").write_bytes(content)
    with pytest.raises(RecipeError, match=rf"\[network\] \w+: .*w{suffix}: ") as caught:
        _ = context(f'module = "own:make"\nweights = "w{suffix}"').network
    assert "\n" not in str(caught.value)


def test_nothing_in_a_file_is_run(context: Callable[[str], Context], tmp_path: Path) -> None:
    torch.save(torch.nn.Conv2d(4, 8, 3), tmp_path / "w.pth")
    with pytest.raises(RecipeError, match=r"save the module's state_dict\(\)"):
        _ = context('module = "own:make"\nweights = "w.pth"').network


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('module = "own:nothing"', r"own\w*:nothing: the module 'own\w*' has no 'nothing'"),
        ('module = "own:mak"', r"the module 'own\w*' has no 'mak'; did you mean 'make'"),
        ('module = "no_such_thing:make"', "no_such_thing:make: no module 'no_such_thing' in .* or among the installed"),
        ('module = "own.inner:make"', "no module 'own.inner' in .* or among the installed"),
        ('module = "own:lacks"', r"own\w*:lacks cannot be called \(ModuleNotFoundError: No module named 'no_such_thing'\)"),
        ('module = "own:fails"', r"cannot be called \(OSError: no such"),
        ('module = "own:number"', "returns a int, expected a torch.nn.Module"),
        ('module = "make"', "expected PACKAGE.MODULE:FUNCTION"),
        ('module = "own:Branching"', "torch.export cannot read this module"),
        ('module = "own:Sorted"', "sort: sort has no place in a network"),
        ('module = "own:make"\nshape = [1, 4, 8, 8]', r"takes \(4, 8, 8\) and has 10 classes, the data has \(4, 6, 6\)"),
        ('module = "own:make"\nshape = [4, 6, 6]', r"expected \[1, channels, height, width\]"),
        ('module = "own:make"\nbackbone = "noise"', "give either backbone, file or module"),
        ('file = "net.onnx"\nweights = "w.pth"', "leave weights out"),
    ],
)  # fmt: skip
def test_modules_that_cannot_be_read(context: Callable[[str], Context], lines: str, message: str) -> None:
    with pytest.raises(RecipeError, match=rf"recipe.toml:\d: \[network\].*{message}") as caught:
        _ = context(lines).network
    assert "\n" not in str(caught.value)


def test_the_nearest_module_is_named(context: Callable[[str], Context], tmp_path: Path) -> None:
    (tmp_path / "my_net.py").write_text("")
    with pytest.raises(RecipeError, match=r"mynet:make: no module 'mynet' in .*; did you mean 'my_net'"):
        _ = context('module = "mynet:make"').network

"""Names of layers and paths of files: what no file can hold or no terminal can show is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_samples import conv_network, weights_for
from random_programs import model_file

from jcw_core.errors import FormatError, JcwError, NetworkError
from jcw_core.network.graph import Network, Node
from jcw_core.network.model import Model
from jcw_kernels import Program, compile_model, load

FINE = ["conv", "größer", "層", "\U0001f600", "a.b/c:0", "x" * 500]
WRONG = ["a\0b", "\ud800", "\udfff\ud800", "a\ud83d", "\x1b[31mred", "line\nbreak", "\x7f"]


def model_called(name: str, rng: np.random.Generator) -> Model:
    plain = conv_network((2, 4, 4), 5, (3, 3))
    nodes = [
        Node(
            name if node.name == "conv" else node.name,
            node.op,
            tuple(name if other == "conv" else other for other in node.inputs),
            node.attributes,
        )
        for node in plain
    ]
    network = Network("net", tuple(nodes))
    return Model(network, weights_for(network, rng, 0.5))


@pytest.mark.parametrize("name", FINE, ids=ascii)
def test_names_come_back_as_they_are(name: str, rng: np.random.Generator, tmp_path: Path) -> None:
    program = compile_model(model_called(name, rng))
    program.save(tmp_path / "model.jcw")
    assert load(tmp_path / "model.jcw").profile(rounds=1)[-1].layer == name


@pytest.mark.parametrize("name", WRONG, ids=ascii)
def test_names_that_no_file_can_hold(name: str, rng: np.random.Generator) -> None:
    try:
        model = model_called(name, rng)
    except NetworkError:
        return  # the network itself knows
    with pytest.raises(JcwError) as caught:
        compile_model(model)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", WRONG, ids=ascii)
def test_files_with_such_names(name: str) -> None:
    unit: dict[str, Any] = {"name": name, "op": "activation", "inputs": [0]}
    with pytest.raises(FormatError) as caught:
        Program(
            model_file({"input": [1, 2, 2], "units": [unit], "output": 1}, {"z": np.zeros(1, np.float32)})
        )
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "damage", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"]
)
def test_text_that_is_no_utf8(damage: bytes) -> None:
    unit = {"name": "N" * len(damage), "op": "activation", "inputs": [0]}
    file = model_file({"input": [1, 2, 2], "units": [unit], "output": 1}, {"z": np.zeros(1, np.float32)})
    assert Program(file).outputs == 4
    with pytest.raises(FormatError, match="not UTF-8"):
        Program(file.replace(b"N" * len(damage), damage, 1))


@pytest.mark.parametrize("path", ["a\0b.jcw", "a\ud800\0"], ids=ascii)
def test_paths_that_no_file_can_have(path: str, rng: np.random.Generator) -> None:
    with pytest.raises(FormatError, match="give another path") as caught:
        load(path)
    assert str(caught.value).isprintable()
    with pytest.raises(FormatError, match="give another path"):
        compile_model(model_called("conv", rng)).save(path)


def test_two_layers_of_one_name() -> None:
    """They would share tensors, and each hold them anew."""
    units = [{"name": "twin", "op": "activation", "inputs": [i]} for i in range(2)]
    with pytest.raises(FormatError, match="two units are called twin"):
        Program(model_file({"input": [1, 2, 2], "units": units, "output": 2}, {"z": np.zeros(1, np.float32)}))

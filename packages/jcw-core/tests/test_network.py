"""Network: consistency, JSON, shapes and counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from core_networks import image_of, networks, random_weights, run, small_resnet
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from jcw_core.errors import NetworkError
from jcw_core.network.builder import NetworkBuilder
from jcw_core.network.graph import Network, Node
from jcw_core.network.operations import OPERATIONS

CONV = {
    "out_channels": 4,
    "kernel_size": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
    "groups": 1,
    "bias": False,
}


@given(networks())
def test_json_round_trip(network: Network) -> None:
    again = Network.from_json(network.to_json())
    assert again == network
    assert hash(again) == hash(network)
    assert again.shapes == network.shapes


def test_a_network_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network, hashed = small_resnet(), []
    monkeypatch.setattr(Node, "__hash__", lambda node: hashed.append(node.name) or 0)
    assert hash(network) == hash(network)
    assert hashed == [node.name for node in network]


@given(networks(), st.integers(0, 2**32 - 1))
def test_inferred_shapes_are_those_of_the_reference(network: Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = run(network, random_weights(network, rng), image_of(network, rng))
    assert {name: value.shape for name, value in values.items()} == dict(network.shapes)


@given(networks())
def test_counts_follow_from_the_arrays(network: Network) -> None:
    assert network.parameters == sum(int(np.prod(shape)) for shape in network.parameter_shapes.values())
    macs = 0
    for node in network:
        if node.op in ("conv2d", "linear", "conv_transpose2d"):
            # A transposed convolution uses each weight once for each pixel that it reads.
            pixels = node.inputs[0] if node.op == "conv_transpose2d" else node.name
            area = int(np.prod(network.shapes[pixels][1:]))
            macs += int(np.prod(network.parameter_shapes[f"{node.name}.weight"])) * area
    assert network.macs == macs


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_a_damaged_document_is_one_error(data: st.DataObject) -> None:
    """Replace or drop any value anywhere in a document: NetworkError, or a network that is consistent."""
    document = json.loads(small_resnet().to_json())
    parent, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(parent[key], (dict, list)) and parent[key] and data.draw(st.integers(0, 4)):
        parent = parent[key]
        key = data.draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
    if data.draw(st.booleans()):
        parent[key] = data.draw(_json | st.sampled_from([10**30, 10**400, -1, 0, float("nan"), float("inf")]))
    else:
        del parent[key]
    try:
        network = Network.from_json(json.dumps(document))
    except NetworkError as error:
        assert str(error)  # noqa: PT017
    else:
        assert Network.from_json(network.to_json()) == network


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda b: b.decode("latin-1")))
def test_text_that_is_no_network(text: str) -> None:
    with pytest.raises(NetworkError):
        Network.from_json(text)


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(NetworkError):
        Network.from_json("[" * 100_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out_channels": 0}, "out_channels"),
        ({"out_channels": True}, "out_channels"),
        ({"out_channels": 2.0}, "out_channels"),
        ({"out_channels": 2**40}, "out_channels"),
        ({"kernel_size": (3,)}, "kernel_size"),
        ({"padding": (-1, 0)}, "padding"),
        ({"bias": 1}, "bias"),
        ({"more": 1}, "more"),
    ],
)
def test_attributes_are_checked(change: dict[str, object], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        Node("c", "conv2d", ("input",), {**CONV, **change})


@pytest.mark.parametrize("eps", [float("nan"), float("inf"), -1.0, 10**400])
def test_eps_is_checked(eps: float) -> None:
    with pytest.raises(NetworkError, match="eps"):
        Node("b", "batch_norm", ("input",), {"eps": eps})


def test_errors_name_the_node() -> None:
    start = Node("input", "input", (), {"shape": (3, 4, 4)})
    end = Node("output", "output", ("input",))
    with pytest.raises(NetworkError, match="unknown operation 'gelu'"):
        Node("s", "gelu", ("input",))
    with pytest.raises(NetworkError, match="1 inputs, expected 2"):
        Node("a", "add", ("input",))
    with pytest.raises(NetworkError, match="'input' is used twice"):
        Network("net", (start, start, end))
    with pytest.raises(NetworkError, match="reads 'late', which is not defined before it"):
        Network("net", (start, Node("r", "relu", ("late",)), Node("late", "relu", ("input",)), end))
    with pytest.raises(NetworkError, match="0 output nodes"):
        Network("net", (start,))
    with pytest.raises(NetworkError, match=r"net: node 'c' \(conv2d\).*3 -> 4 channels do not divide into 2"):
        Network("net", (start, Node("c", "conv2d", ("input",), {**CONV, "groups": 2}), end))
    with pytest.raises(NetworkError, match="flatten first"):
        NetworkBuilder("net", (3, 4, 4)).linear("fc", 2)
    with pytest.raises(NetworkError, match="does not fit"):
        NetworkBuilder("net", (3, 4, 4)).conv("c", 2, 7, padding=0)
    with pytest.raises(NetworkError, match="padding"):
        NetworkBuilder("net", (3, 4, 4)).pool("p", "max_pool", 3, 1, 2)


def test_builder_and_network_agree() -> None:
    network = small_resnet()
    assert network.input_shape == (3, 8, 8)
    assert network.num_classes == 3
    assert network.shapes["join"] == (20, 8, 8)
    assert network.shapes["flatten"] == (320,)
    assert network.consumers["stem_relu"] == ("block.conv1", "block.add")
    assert "fc" in network
    assert "fc2" not in network
    assert [node.name for node in network if network.is_depthwise(node)] == ["branch_dw", "dw"]


@given(networks())
def test_depthwise_is_one_output_channel_for_each_input(network: Network) -> None:
    for node in network:
        if node.op == "conv2d" and node.attributes["groups"] != 1:
            channels = {network.shapes[node.inputs[0]][0], network.shapes[node.name][0]}
            assert network.is_depthwise(node) == (channels == {node.attributes["groups"]})


def test_groups_of_several_inputs_and_one_output_are_not_depthwise() -> None:
    net = NetworkBuilder("net", (8, 4, 4))
    net.conv("grouped", 4, 3, groups=4)
    network = net.build()
    assert not network.is_depthwise(network["grouped"])


@pytest.mark.parametrize("op", sorted(OPERATIONS))
def test_every_operation_is_exercised_by_the_strategy(op: str) -> None:
    """So that the property tests mean something: none leaves an operation out."""
    until_found = settings(max_examples=2000, phases=[Phase.generate])
    find(networks(), lambda network: any(node.op == op for node in network), settings=until_found)


@pytest.mark.parametrize("content", [None, b"{}", b"\xff"])
def test_a_file_that_holds_no_network_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "net.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NetworkError, match=r"net\.json: "):
        Network.read(path)


UNPRINTABLE = st.characters(categories=["Cc", "Cs", "Cn", "Zl", "Zp", "Cf"])


@given(st.text(max_size=5), UNPRINTABLE, st.text(max_size=5))
def test_names_that_cannot_be_printed_are_refused(before: str, character: str, after: str) -> None:
    """NUL, escapes and halves of surrogate pairs: no path, no JSON file in UTF-8 and no terminal takes them."""
    name = before + character + after
    document = json.loads(small_resnet().to_json())
    for changed in (
        {**document, "name": name},
        {**document, "nodes": [{**document["nodes"][0], "name": name}]},
    ):
        with pytest.raises(NetworkError, match=r"name .* cannot be printed; rename it") as error:
            Network.from_json(json.dumps(changed))
        assert str(error.value).isprintable()


def test_names_that_are_empty_are_refused() -> None:
    with pytest.raises(NetworkError, match="node name '' is empty"):
        Node("", "relu", ("x",))
    with pytest.raises(NetworkError, match="network name '' is empty"):
        Network("", small_resnet().nodes)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=9))
def test_names_in_any_script_are_taken(name: str) -> None:
    assert Network.from_json(Network(name, small_resnet().nodes).to_json()).name == name

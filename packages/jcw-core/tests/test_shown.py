from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from jcw_core.backbones.resnet import RESNET18
from jcw_core.network import Architecture, LayerProblem, NetworkBuilder, Node, couple, fuse
from jcw_core.run.records import Candidate, ChosenModel, Front
from jcw_core.shown import call_of, count_of, html_table


@dataclass
class Sample:
    needed: str
    size: int = 1
    names: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Sample("a"), "Sample('a')"),
        (Sample("a", 2), "Sample('a', size=2)"),
        (Sample("a", names=["b"]), "Sample('a', names=['b'])"),
        (count_of(1, "model"), "1 model"),
        (count_of(1000, "model"), "1,000 models"),
    ],
)
def test_words(value: Sample | str, text: str) -> None:
    assert (call_of(value) if isinstance(value, Sample) else value) == text


def test_what_is_shown_of_a_network() -> None:
    builder = NetworkBuilder("net", (3, 8, 8))
    for name in "abcd":
        builder.conv(name, 8, 1, source="input")
        builder.batch_norm(f"{name}_bn")
    builder.add("cat", "concat", *(f"{name}_bn" for name in "abcd"))
    builder.add("relu", "relu")
    builder.add("pool", "global_avg_pool")
    network = builder.build()
    assert repr(network["a_bn"]) == "<Node 'a_bn': batch_norm(a, eps=1e-05)>"
    assert repr(network["cat"]) == "<Node 'cat': concat(a_bn, b_bn, c_bn, ...)>"
    assert "conv2d(input, out_channels=8, kernel_size=(1, 1)" in repr(network["a"])
    assert repr(network.input).startswith("<Node 'input': input(shape=")
    assert repr(fuse(network)[0]) == "<FusedLayer 'a': conv2d + batch_norm>"
    assert repr(couple(network).groups["a"]).startswith("<ChannelGroup 'a': 8 channels of 1 layer")


def test_a_layer_problem_is_shown_as_the_call_that_makes_it() -> None:
    problem = LayerProblem("conv2d", 8, 6, 6, 8, (3, 3), padding=(1, 1), groups=8, density=0.5)
    assert eval(repr(problem), {"LayerProblem": LayerProblem}) == problem


def test_what_is_shown_of_architectures_and_of_what_holds_them() -> None:
    architecture = Architecture({"a": 4, "b": 64}, {"c": 0.25})
    shown = "<Architecture: widths 4 to 64 of 2 groups, densities 0.25 to 0.25 of 1 layer>"
    assert repr(architecture) == shown
    assert repr(Architecture({}, {})) == "<Architecture: no widths, no densities>"
    candidate = Candidate(architecture, {"latency": 1.25, "error": 0.5})
    assert repr(candidate) == f"<Candidate: latency 1.25, error 0.5; {shown}>"
    front = Front("net", {"latency": "ms", "error": ""}, [candidate])
    assert repr(front) == "<Front of 'net': 1 candidate by latency, error>"
    model = ChosenModel("m1", architecture, None, 1.5, None, 1234, "m1.safetensors")
    assert repr(model) == "<ChosenModel 'm1': 1.5 ms predicted, 1,234 weights kept>"
    assert repr(Node("x", "relu", ("y",))) == "<Node 'x': relu(y)>"


def test_tables_for_notebooks_are_escaped_and_small() -> None:
    assert html_table("<a> & b", ("x<", "y"), [("<script>", 1), ("\x1b[2J", "é")]) == (
        "<p>&lt;a&gt; &amp; b</p><table><thead><tr><th>x&lt;</th><th>y</th></tr></thead><tbody>"
        "<tr><td>&lt;script&gt;</td><td>1</td></tr><tr><td>\\x1b[2J</td><td>é</td></tr></tbody></table>"
    )
    long = html_table("", ("x",), [(number,) for number in range(1031)])
    assert long.endswith("<p>and 1,001 more</p>")
    assert long.count("<tr>") == 31


def test_a_network_in_a_notebook() -> None:
    network = RESNET18.build()
    html = network._repr_html_()
    assert "&lt;Network &#x27;resnet18&#x27;" in html
    assert "<tr><td>conv1</td><td>conv2d</td><td>64 x 112 x 112</td><td>118,013,952</td></tr>" in html
    assert html.count("<tr>") == 22  # 20 convolutions, a linear layer and the heads
    assert len(html) < 4000

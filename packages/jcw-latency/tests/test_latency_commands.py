"""``jcw profile``, ``jcw predict`` and ``jcw check``."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from latency_samples import Plugin, SyntheticDevice, SyntheticPlugin

from jcw_core.cli.main import build
from jcw_core.errors import DeviceError, JcwError
from jcw_core.files import write_json
from jcw_core.hookspecs import hookimpl
from jcw_core.network.graph import Network
from jcw_core.network.layers import fuse
from jcw_core.options import option
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.space.space import SearchSpace
from jcw_latency import LatencyPredictor, LatencyTable
from jcw_latency.commands.arguments import open_device
from jcw_latency.fidelity import figure


@pytest.fixture
def registry() -> Registry:
    return Registry({"synthetic": Plugin()})


def jcw(registry: Registry, *arguments: object) -> str:
    result = CliRunner().invoke(build(registry), [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@dataclass(frozen=True)
class PhoneOptions:
    serial: str = option()
    core: int = option()


def test_options_of_a_device_are_what_their_keys_are() -> None:
    phone = SimpleNamespace(name="phone", options=PhoneOptions, open=lambda options: options)
    registry = Registry(
        {"phones": SimpleNamespace(jcw_register_devices=hookimpl(lambda: [phone]))}, installed=False
    )
    given = open_device(registry, "phone", ("serial=98862734", "core=0x7"))
    assert given == PhoneOptions("98862734", 7)


def test_profile_predict_check(
    registry: Registry, network: Network, table: LatencyTable, tmp_path: Path
) -> None:
    (tmp_path / "net.json").write_text(network.to_json())
    made = tmp_path / "made.npz"
    jcw(registry, "profile", tmp_path / "net.json", "--device", "synthetic", "-o", made,
        "--set", "widths=4", "--set", "densities=5")  # fmt: skip
    assert not list(tmp_path.glob("*.partial"))
    np.testing.assert_array_equal(LatencyTable.load(made).grids[2].ms, table.grids[2].ms)

    again = tmp_path / "again.npz"
    jcw(registry, "profile", tmp_path / "net.json", "--device", "recorded", "--option", f"table={made}", "-o", again,
        "--set", "widths=4", "--set", "densities=5")  # fmt: skip
    np.testing.assert_allclose(LatencyTable.load(again).grids[2].ms, table.grids[2].ms, rtol=1e-12)

    space = SearchSpace.of(network)
    population = space.sample(3, np.random.default_rng(0))
    expected = LatencyPredictor(table, space).predict(population)
    members = [space.architecture(row) for row in population]
    write_json(tmp_path / "one.json", members[0].to_dict())
    candidates = [records.Candidate(m, {"latency": 1.0}) for m in members]
    records.Front("small", {"latency": "ms"}, candidates).write(tmp_path / "front.json")
    rows = json.loads(
        jcw(registry, "predict", made, tmp_path / "one.json", tmp_path / "front.json", "--json")
    )
    assert [r["latency_ms"] for r in rows] == pytest.approx([expected[0], *expected], rel=0.02)
    (row,) = json.loads(jcw(registry, "predict", made, tmp_path / "one.json", "--layers", "--json"))
    assert list(row["layers"]) == [layer.name for layer in fuse(network)]
    assert sum(row["layers"].values()) + row["overhead_ms"] == pytest.approx(row["latency_ms"], rel=1e-12)
    printed = jcw(registry, "predict", made, tmp_path / "one.json", "--layers")
    assert all(layer.name in printed for layer in fuse(network))

    # Before click 8.2 its runner hands over progress, which goes to stderr, with the output.
    found = json.loads(jcw(registry, "check", made, "--networks", 5, "--json").strip().splitlines()[-1])
    assert found["networks"] == 5
    assert found["mape"] < 0.01
    plain = jcw(registry, "check", again, "--networks", 5, "--option", f"table={made}")
    assert "layer by layer" in plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "resnet18", "--device", "nowhere"], "unknown device 'nowhere'"),
        (["profile", "lenet", "--device", "synthetic"], "unknown backbone 'lenet'"),
        (["profile", "none.json", "--device", "synthetic"], r"none\.json: .*No such file"),
        (["profile", "resnet18", "--device", "synthetic", "--option", "noise"], "KEY=VALUE"),
        (["profile", "resnet18", "--device", "synthetic", "--option", "noise=-1"], "noise: -1.* impossible"),
        (["profile", "resnet18", "--device", "synthetic", "--set", "width=3"], "did you mean 'widths'"),
        (
            ["profile", "resnet18", "--device", "synthetic", "--adaptive", "--set", "widths=4"],
            "^--set: adaptive.* widths = 4 would do nothing",
        ),
        (
            ["profile", "resnet18", "--device", "synthetic", "--adaptive", "--set", "placement=midpoint"],
            "placement = midpoint would",
        ),
        (["profile", "resnet18", "--device", "recorded"], "table: is missing"),
        (["predict", "none.npz", "a.json"], r"none\.npz: no such file"),
        (["predict", "table.npz", "a.json"], r"a\.json: no such file"),
        (["predict", "table.npz", "bad.json"], r"bad\.json: an architecture is"),
        (["predict", "table.npz", "wide.json"], r"^wide\.json: width of 'stem' is 400"),
        (
            ["predict", "table.npz", "names.json"],
            r"^names\.json: .*no density named 'fd'; there is: block\.conv1, .*fc$",
        ),
        (["predict", "table.npz", "front.json"], r"^front\.json: a front of 'big', expected one of 'small'"),
        (["predict", "table.npz", "good.json", "--network", "other"], "no network 'other'"),
        (["check", "table.npz", "--device", "host2"], "unknown device 'host2'"),
        (["profile", "none.JSON", "--device", "synthetic"], r"none\.JSON: .*No such file"),
        (["profile", "none.ONNX", "--device", "synthetic"], r"none\.ONNX: |'jcw-latency\[onnx\]'"),
        (
            ["profile", "table.npz", "--device", "synthetic"],
            r"table\.npz: neither .* in \.json or \.onnx nor",
        ),
        (
            ["profile", "folder", "--device", "synthetic"],
            "folder: neither a file .* nor a backbone; there is: mob",
        ),
        (
            ["profile", "nets:make", "--device", "synthetic"],
            r"nets:make: expected a backbone or a file; .* `jcw networks nets:make --shape 1,3,224,224 --json",
        ),
        (["profile", "resnet18", "--device", "synthetic", "--set", "timeout=1e10"], "from 1.0 to 1000000"),
        *((["check", "table.npz", "--timeout", t], "timeout: .* impossible") for t in ("-1", "nan", "1e20")),
    ],
)
def test_bad_input(
    registry: Registry,
    table_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(table_file.parent)
    Path("folder").mkdir()
    write_json(Path("bad.json"), {"widths": 3})
    write_json(Path("good.json"), {"widths": {}, "densities": {}})
    write_json(Path("wide.json"), {"widths": {"stem": 400}, "densities": {}})
    write_json(Path("names.json"), {"widths": {}, "densities": {"fd": 0.5}})
    records.Front("big", {"latency": "ms"}, []).write(Path("front.json"))
    before = table_file.read_bytes()
    with pytest.raises(JcwError, match=message) as caught:
        CliRunner().invoke(build(registry), [*arguments], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    assert table_file.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("profile", ["--width", width]) for width in ("inf", "100", "0")),
        *((command, ["--seed", "-1"]) for command in ("profile", "check")),
    ],
)
def test_numbers_out_of_range(registry: Registry, table_file: Path, command: str, option: list[str]) -> None:
    network = ["profile", "resnet18", "--device", "synthetic"]
    arguments = network if command == "profile" else ["check", str(table_file)]
    result = CliRunner().invoke(build(registry), [*arguments, *option])
    assert result.exit_code == 2
    assert f"Invalid value for '{option[0]}': {option[1]}" in result.output


@pytest.mark.parametrize("name", ["", "folder.png", "table.npz/x.png", "/proc/x.png"])
@pytest.mark.parametrize("command", ["profile", "check", "table merge"])
def test_nothing_is_measured_for_a_file_that_cannot_be_written(
    registry: Registry, table_file: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.chdir(table_file.parent)
    monkeypatch.setattr(figure, "require", lambda path: None)
    for measure in ("measure", "measure_models"):
        monkeypatch.setattr(SyntheticDevice, measure, lambda *_, **options: pytest.fail("measured"))
    Path("folder.png").mkdir()
    arguments = {
        "profile": ["resnet18", "--device", "synthetic", "-o"],
        "check": ["table.npz", "--plot"],
        "table merge": ["table.npz", "-o"],
    }[command]
    with pytest.raises(OSError, match=r".") as caught:
        jcw(registry, *command.split(), *arguments, name)
    assert caught.value.filename == str(Path(name))
    assert {p.name for p in Path().iterdir()} == {"table.npz", "folder.png"}


def test_a_profile_that_cannot_keep_its_measurements(
    registry: Registry, table_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, partial = SyntheticDevice(), table_file.with_name("made.npz.partial")
    monkeypatch.setattr(SyntheticPlugin, "open", lambda *_: opened)
    partial.mkdir()
    with pytest.raises(FileExistsError, match=r"made\.npz\.partial"):
        jcw(registry, "profile", "resnet18", "--device", "synthetic", "-o", table_file.with_name("made.npz"))
    assert not opened.timed


def test_check_prints_its_figures_before_the_plot_fails(
    registry: Registry, table_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(figure, "require", lambda path: None)
    monkeypatch.setattr(figure, "draw", fail)
    arguments = ["check", str(table_file), "--networks", "2", "--plot", str(table_file.with_name("x.png"))]
    result = CliRunner().invoke(build(registry), arguments)
    assert isinstance(result.exception, OSError)
    assert "mean error" in result.output


def test_check_refuses_a_table_of_another_engine(
    registry: Registry, table_file: Path, tmp_path: Path
) -> None:
    table = LatencyTable.load(table_file)
    device: Any = table.device
    object.__setattr__(device, "versions", {"formula": "0"})
    table.save(table_file)
    with pytest.raises(DeviceError, match="profile again"):
        jcw(registry, "check", table_file, "--networks", 2)

"""The command as users meet it: one line per mistake, exit status 2, nothing lost."""

from __future__ import annotations

import copy
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import jcw_core.plugin
from jcw_core.cli import main as cli
from jcw_core.errors import (
    DeviceError,
    FormatError,
    JcwError,
    NetworkError,
    PluginError,
    RecipeError,
    continues_from,
)
from jcw_core.recipe.recipe import load_recipe
from jcw_core.registry import Registry

GOOD = '[network]\nbackbone = "resnet18"\n[data]\nname = "image_folder"\npath = "images"\n'


SHIPPED = Path(__file__).parents[3] / "examples" / "data" / "fashion_mnist"
WORKS = f"""\
[network]
backbone = "resnet18"
width = 0.25

[data]
name = "fashion_mnist"
path = "{SHIPPED}"
holdout = 100

[[space.bounds]]
layers = "layer1.*"
width = 0.5
density = 0.5

[[space.bounds]]
layers = "layer4.*"
width = 0.5
density = 0.5
"""


def jcw(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    code = "from jcw_core.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env=os.environ | env,
        capture_output=True,
        text=True,
    )


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 2, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD + "[run]\nsed = 1\n", "recipe.toml:7: [run] sed: unknown key; did you mean 'seed'?"),
        (GOOD + '[run]\nseed = "one"\n', "recipe.toml:7: [run] seed: expected int, found 'one'"),
        (GOOD + "[run]\nseed = -1\n", "recipe.toml:7: [run] seed: -1 is impossible"),
        (GOOD + "[serach]\n", "recipe.toml:6: [serach]: unknown table"),
        (GOOD.replace("image_folder", "imagnet"), "unknown dataset 'imagnet'; there is:"),
        (GOOD.replace("path", "#path"), "recipe.toml:3: [data] path: is missing"),
        (GOOD + '[device]\nname = "toaster"\n', "unknown device 'toaster'"),
        (
            GOOD + '[space]\nbounds = [{layers = "*", width = 0.5, density = 1.5}]\n',
            "density = 1.5 is impossible",
        ),
        ("[network", "not a TOML file"),
        ('[network]\n[data]\nname = "image_folder"\npath = "x"\n', "give either backbone, file or module"),
    ],
)
def test_a_bad_recipe_is_one_line_with_file_and_key(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    assert expected in one_line(jcw("run", "recipe.toml", cwd=tmp_path))
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the only stage of jcw-core that needs no other asks for torch first")
    (tmp_path / "recipe.toml").write_text(WORKS)
    (tmp_path / "taken").touch()
    assert "taken" in one_line(
        jcw("run", "recipe.toml", "--runs", "taken", "--until", "supernet", cwd=tmp_path)
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"layer4.*"', '"layer5.*"', "16: [space.bounds] layers: bound 'layer5.*' matches no layer of resnet18"),
        ('4.*"\nwidth = 0.5', '4.*"\nwidth = 0.001', "17: [space.bounds] width: width = 0.001 of group 'layer4."),
        (str(SHIPPED), "nowhere", "5: [data]: "),
        ("holdout = 100", "holdout = 100000", "5: [data]: cannot hold 100000 images out of"),
        ('backbone = "resnet18"', 'file = "net.json"', "2: [network] file: "),
    ],
)  # fmt: skip
def test_images_network_and_space_are_made_before_the_first_stage(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    pytest.importorskip("torch", reason="the only stage of jcw-core that needs no other asks for torch first")
    assert old in WORKS
    (tmp_path / "recipe.toml").write_text(WORKS.replace(old, new))
    assert f"recipe.toml:{expected}" in one_line(
        jcw("run", "recipe.toml", "--until", "supernet", cwd=tmp_path)
    )
    assert not (tmp_path / "runs").exists()


def without_times(printed: str) -> list[str]:
    """The lines of a dry run, whose times depend on the machine."""
    return re.sub(r"about \d+ (s|min|h|days) here", "TIME", printed).splitlines()


def test_a_dry_run_checks_the_recipe_and_lists_the_stages(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the only stage of jcw-core that needs no other asks for torch first")
    (tmp_path / "recipe.toml").write_text(WORKS)
    dry = ("run", "recipe.toml", "--until", "supernet", "--dry-run")
    done = jcw(*dry, cwd=tmp_path)
    expected = [
        "supernet     -> supernet.safetensors  (30 epochs of 9900 images, TIME at most)",
        "kept whole: fc: all channels, as it makes the network's output",
        "kept whole: conv1: all weights, as it is the first convolution",
    ]
    assert (done.returncode, without_times(done.stdout)) == (0, expected)
    assert done.stderr == ""
    many = jcw(*dry, "--json", "--set", "run.threads=1000", cwd=tmp_path)
    (row,) = map(json.loads, many.stdout.splitlines())
    assert (row["stage"], row["makes"], row["finished"]) == ("supernet", ["supernet.safetensors"], False)
    assert many.stderr.startswith("note: run.threads = 1000, but only ")
    assert many.stderr.splitlines()[1:] == expected[1:]
    assert "recipe.toml:5: [data]: " in one_line(jcw(*dry, "--set", "data.path=nowhere", cwd=tmp_path))
    assert not (tmp_path / "runs").exists()


def test_json_is_for_what_a_dry_run_lists(tmp_path: Path) -> None:
    done = jcw("run", "recipe.toml", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "--json is for --dry-run" in done.stderr


def test_a_missing_recipe(tmp_path: Path) -> None:
    assert "none.toml: no such file" in one_line(jcw("run", "none.toml", cwd=tmp_path))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("run.seed", "expected TABLE.KEY=VALUE"),
        ("seed=1", "expected TABLE.KEY"),
        ("run.seed=x", "expected int"),
    ],
)
def test_a_bad_override(tmp_path: Path, override: str, expected: str) -> None:
    (tmp_path / "recipe.toml").write_text(GOOD)
    assert expected in one_line(jcw("run", "recipe.toml", "--set", override, cwd=tmp_path))


@pytest.mark.parametrize(
    ("kind", "arguments", "status", "expected"),
    [
        (DeviceError, ("has not\n answered",), 2, "jcw: has not answered (see docs/profiling.md)"),
        (OSError, (errno.ENOSPC, "No space left", "table.npz"), 2, "jcw: table.npz: No space left"),
        (OSError, ("made up",), 2, "jcw: made up"),
        (MemoryError, (), 2, "jcw: out of memory; take something smaller"),
        (MemoryError, ("cannot allocate 1 PiB",), 2, "jcw: out of memory; cannot allocate 1 PiB"),
        (RecursionError, ("maximum",), 2, "jcw: what was given is nested too deeply"),
        (KeyboardInterrupt, (), 130, "jcw: interrupted"),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_an_error_is_one_line_that_says_what_continues(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[BaseException],
    arguments: tuple[object, ...],
    status: int,
    expected: str,
    kept: bool,
) -> None:
    @click.command()
    def failing() -> None:
        with continues_from(tmp_path / "partial"):
            if kept:
                (tmp_path / "partial").touch()
            raise kind(*arguments)

    monkeypatch.setattr(cli, "build", lambda registry: failing)
    monkeypatch.setattr(sys, "argv", ["jcw"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status
    if kept and kind in (DeviceError, OSError, KeyboardInterrupt):
        expected += f"; the same command continues from {tmp_path / 'partial'}"
    assert capsys.readouterr().err.strip() == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (JcwError("no room"), "jcw: no room"),
        (JcwError("no room", see="docs/scaling.md"), "jcw: no room (see docs/scaling.md)"),
        (FormatError("bad.onnx", see="docs/operations.md"), "jcw: bad.onnx (see docs/operations.md)"),
        (FormatError("bad.npz, as docs/files.md has it"), "jcw: bad.npz, as docs/files.md has it"),
        (PluginError("unknown device 'pi'", see=""), "jcw: unknown device 'pi'"),
        (copy.copy(FormatError("bad", see="")), "jcw: bad"),
    ],
)
def test_an_error_names_the_page_that_explains_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: JcwError, expected: str
) -> None:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(cli, "build", lambda registry: failing)
    monkeypatch.setattr(sys, "argv", ["jcw"])
    assert cli._run() == 2
    assert capsys.readouterr().err.strip() == expected


def test_a_network_that_a_recipe_cannot_have_is_explained_by_its_own_page(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="what trains is asked for torch first")
    (tmp_path / "net.json").write_text("{}")
    recipe = WORKS.replace('backbone = "resnet18"\nwidth = 0.25', 'file = "net.json"')
    (tmp_path / "recipe.toml").write_text(recipe)
    until = ("run", "recipe.toml", "--until", "supernet")
    assert one_line(jcw(*until, cwd=tmp_path)).endswith(f"(see {NetworkError.page})")
    (tmp_path / "recipe.toml").write_text(recipe.replace("holdout", "houldout"))
    assert one_line(jcw(*until, cwd=tmp_path)).endswith(f"(see {RecipeError.page})")


@pytest.mark.parametrize("width", ["inf", "100"])
def test_a_width_that_is_impossible(tmp_path: Path, width: str) -> None:
    result = jcw("networks", "--width", width, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "width" in result.stderr


def test_a_missing_folder_of_images(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(GOOD)
    result = jcw("run", "recipe.toml", "--until", "report", cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_help_names_every_command(tmp_path: Path) -> None:
    result = jcw("--help", cwd=tmp_path)
    assert result.returncode == 0
    for command in ("run", "recipe", "plugins", "networks", "show"):
        assert f"\n  {command} " in result.stdout


def test_networks_lists_the_backbones(tmp_path: Path) -> None:
    assert "11,689,512" in jcw("networks", cwd=tmp_path).stdout


def test_networks_as_json_are_a_line_each(tmp_path: Path) -> None:
    lines = jcw("networks", "--json", cwd=tmp_path).stdout.splitlines()
    found = {row["network"]: row for row in map(json.loads, lines)}
    assert found["resnet18"] == {
        "network": "resnet18",
        "macs": 1_814_073_344,
        "parameters": 11_689_512,
        "groups": 12,
        "prunable": 20,
    }


def test_plugins_as_json_are_a_line_each(tmp_path: Path) -> None:
    lines = jcw("plugins", "--json", cwd=tmp_path).stdout.splitlines()
    assert {"kind": "backbone", "name": "resnet18", "distribution": "jcw-core"} in map(json.loads, lines)


@pytest.mark.parametrize("from_file", [False, True])
def test_a_network_is_listed_with_what_a_search_may_take(tmp_path: Path, from_file: bool) -> None:
    chosen = "mobilenet_v1"
    if from_file:
        chosen = "net.json"
        (tmp_path / chosen).write_text(jcw("networks", "--json", "mobilenet_v1", cwd=tmp_path).stdout)
    done = jcw("networks", chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {words[0]: words[1:] for words in (line.split() for line in done.stdout.splitlines())}
    assert rows["conv"] == ["32", "10,838,016", "channels", "conv"]
    assert rows["block1.depthwise"] == ["32", "3,612,672", "channels", "conv"]
    assert rows["block1.pointwise"] == ["64", "25,690,112", "channels,", "weights", "block1.pointwise"]
    assert rows["classifier"] == ["1000", "1,024,000", "weights"]
    assert "kept whole: classifier: all channels, as it makes the network's output" in done.stdout
    assert "block4.depthwise and 9 more: all weights, as each is depthwise" in done.stdout


def test_an_onnx_file_is_listed_before_any_run(tmp_path: Path) -> None:
    """Up to the values that are named, with the node that holds each layer that stays whole."""
    onnx_models = pytest.importorskip("onnx_models")
    step = onnx_models.step
    steps = [
        step("Conv", "x", "first.weight", to="a"),
        step("Softmax", "a", axis=1, name="gate"),
        step("Conv", "softmax", "second.weight", name="2", to="b"),
        step("Relu", "b", to="kept"),
        step("Erf", "kept"),
    ]
    tensors = onnx_models.weights(**{"first.weight": (16, 4, 3, 3), "second.weight": (12, 16, 1, 1)})
    made = onnx_models.model(steps, tensors, shape=("n", 4, "h", "w"))
    (tmp_path / "own.onnx").write_bytes(made.SerializeToString())
    assert "--shape 1,3,224,224" in one_line(jcw("networks", "own.onnx", cwd=tmp_path))
    sized = ("networks", "own.onnx", "--shape", "1,4,9,9")
    assert re.search(r"'Erf' .*no place.*--outputs NAME,NAME", one_line(jcw(*sized, cwd=tmp_path)))
    assert "no operator makes the value 'none'" in one_line(jcw(*sized, "--outputs", "none", cwd=tmp_path))
    done = jcw(*sized, "--outputs", "kept", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^first +16 ", done.stdout, re.MULTILINE)
    assert re.search(r"kept whole: first: all channels, as it .*'gate'", done.stdout)
    for wrong in ("kept,", "kept,kept"):
        assert "is no list of names" in jcw(*sized, "--outputs", wrong, cwd=tmp_path).stderr
    wrong = jcw("networks", "resnet18", "--outputs", "kept", cwd=tmp_path)
    assert "--outputs: resnet18 is a backbone" in one_line(wrong)


def test_a_torch_module_is_listed_before_any_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "from torch import nn\n\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))\n"
    (tmp_path / "own.py").write_text(code)
    done = jcw("networks", "own:make", "--shape", "1,3,9,9", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^0 +8 +10,584 +channels +0$", done.stdout, re.MULTILINE)
    cut = jcw("networks", "own:make", "--shape", "1,3,9,9", "--outputs", "1", "--json", cwd=tmp_path)
    (tmp_path / "own.json").write_text(cut.stdout)
    assert "kept whole: 0: all channels" in jcw("networks", "own.json", cwd=tmp_path).stdout
    assert "did you mean 'make'" in one_line(jcw("networks", "own:mak", cwd=tmp_path))


def test_a_network_that_is_not_there(tmp_path: Path) -> None:
    assert "unknown backbone 'resnet'" in one_line(jcw("networks", "resnet", cwd=tmp_path))
    for name in ("none.json", "none.onnx"):
        assert f"{name}: " in one_line(jcw("networks", name, cwd=tmp_path))


def test_a_network_printed_as_json_is_read_back(tmp_path: Path) -> None:
    from jcw_core.network.graph import Network

    text = jcw("networks", "--json", "mobilenet_v2", "--input-size", "32", cwd=tmp_path).stdout
    assert Network.from_json(text).input_shape == (3, 32, 32)


def test_recipe_lists_every_key(tmp_path: Path) -> None:
    listed = jcw("recipe", cwd=tmp_path).stdout
    for line in ("[run]", "# seed = 0", "[data]", '# name = "image_folder"', "[space]", "# step = 4"):
        assert line in listed


def test_keys_as_json_are_a_line_each(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in jcw("recipe", "--json", cwd=tmp_path).stdout.splitlines()]
    found = {(row["table"], row["plugin"], row["key"]): row for row in rows}
    assert len(found) == len(rows)
    seed = found["run", "", "seed"]
    assert (seed["type"], seed["required"], seed["default"]) == ("int", False, 0)
    assert seed["help"]
    path = found["data", "image_folder", "path"]
    assert (path["required"], path["default"]) == (True, None)
    assert (found["network", "", "file"]["required"], found["network", "", "file"]["default"]) == (
        False,
        None,
    )
    listed = jcw("recipe", cwd=tmp_path).stdout
    assert all(row["key"] in listed for row in rows)


def test_show_names_the_file_that_is_missing(tmp_path: Path) -> None:
    assert "report.json: no such file; the last stage of jcw run writes it" in one_line(
        jcw("show", "runs/none", cwd=tmp_path)
    )


def place(tmp_path: Path, kind: str) -> str:
    """A path at which there is nothing that can be read."""
    (tmp_path / "loop").symlink_to("pool")
    (tmp_path / "pool").symlink_to("loop")
    (tmp_path / "broken").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    return {"long": "n" * 300, "folder": ".", "inside": "loop/x", "bytes": os.fsdecode(b"\xff\x1b[31m")}.get(
        kind, kind
    )


@pytest.mark.parametrize("kind", ["loop", "inside", "broken", "folder", "long", "bytes"])
def test_paths_that_lead_nowhere_are_one_line(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = place(tmp_path, kind)
    for command in ("run", "show"):
        monkeypatch.setattr(sys, "argv", ["jcw", command, path])
        assert cli._run() == 2
        shown = capsys.readouterr().err
        assert shown.startswith("jcw: ")
        assert shown[:-1].isprintable()


IMPOSSIBLE = {
    "data.path": ["loop", "loop/x", "a\0b", "\0"],
    "network.file": ["loop", "loop/x", "a\0b", "\0"],
    "run.name": ["a\0b", "\0", "../x", "/x", "a/../../x", "..", ".", "a//b", "\x1b[31m", "\udcff"],
    "data.name": ["a\0b", "../x"],
    "network.backbone": ["a\0b", "../x"],
}


@pytest.mark.parametrize(("key", "value"), [(key, v) for key, values in IMPOSSIBLE.items() for v in values])
def test_values_that_are_no_paths_name_their_key(tmp_path: Path, key: str, value: str) -> None:
    place(tmp_path, "loop")
    table, name = key.split(".")
    (tmp_path / "recipe.toml").write_text(GOOD)
    with pytest.raises(RecipeError, match=rf"recipe\.toml.*\[{table}\].*{name}"):
        load_recipe(
            tmp_path / "recipe.toml", Registry({"core": jcw_core.plugin}, installed=False), {key: value}
        )


@pytest.mark.parametrize("name", ["..toml", "...toml"])
def test_a_recipe_whose_name_gives_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(GOOD)
    assert "set run.name" in one_line(jcw("run", name, cwd=tmp_path))


def test_listing_plugins_imports_no_torch(tmp_path: Path) -> None:
    code = "import sys; from jcw_core.registry import Registry; r = Registry(); r.stages, r.objectives, r.commands; "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

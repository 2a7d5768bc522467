"""What the wheels must be able to do. Run where nothing but wheels is installed, in an empty folder, on any machine.

The last line that it prints has the processor's instruction set, as the engine found it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from click.testing import CliRunner

from jcw_core import Model, NetworkBuilder, Registry
from jcw_core.cli.main import build
from jcw_kernels import compile_model

COARSE = ("widths=2", "densities=2", "min_rounds=2", "rounds=2", "check_networks=2", "check_rounds=2")


def main() -> None:
    """Profile a small network, run it, and begin a plugin."""
    net = NetworkBuilder("small", (3, 16, 16))
    net.conv("one", 16, 3)
    net.add("relu", "relu")
    net.conv("two", 32, 3, stride=2)
    net.add("pool", "global_avg_pool")
    net.add("flatten", "flatten")
    net.linear("fc", 4)
    network = net.build()
    Path("small.json").write_text(network.to_json(), encoding="utf-8")
    jcw("profile", "small.json", "--device", "host", *(word for key in COARSE for word in ("--set", key)))
    assert "conv2d" in jcw("table", "show", "table.npz")
    rng = np.random.default_rng(0)
    shapes = {**network.parameter_shapes, **network.buffer_shapes}
    weights = {name: rng.random(shape, dtype=np.float32) for name, shape in shapes.items()}
    image = rng.random((1, *network.input_shape), dtype=np.float32)
    found = [compile_model(Model(network, weights), isa=isa).run(image) for isa in ("", "scalar")]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    jcw("new-plugin", "jcw-lottery", "--kind", "selection")
    listed = jcw("plugins").split()
    assert {"resnet18", "host", "uniform", "retrain"} <= set(listed), listed
    host = Registry().devices["host"]
    print(f"a profile, a model and a plugin, by {host.open(host.options()).describe().isa}")


def jcw(*arguments: str) -> str:
    """The output of a command."""
    done = CliRunner().invoke(build(Registry()), arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


if __name__ == "__main__":
    main()

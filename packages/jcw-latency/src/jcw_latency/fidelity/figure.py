"""``jcw check --plot``: predicted against measured latency, beside multiply-accumulates against it.

The two panels are those of the paper's figure on latency estimation. Needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jcw_core.errors import JcwError
from jcw_core.files import atomic
from jcw_core.network.graph import Network
from jcw_core.protocols import DeviceInfo

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAND = 0.1
"""Share of the measured time within which predictions are shaded."""
_MEASURED = {"networks": "measured latency (ms)", "layers": "measured latency, layers added up (ms)"}


def require(path: Path) -> None:
    """Raise ``JcwError`` unless a figure can be drawn and ``path`` names a PNG file; imports nothing."""
    if path.suffix != ".png":
        raise JcwError(f"{path}: plots are written as PNG; give it a name that ends in .png")
    if find_spec("matplotlib") is None:
        raise JcwError("matplotlib is not installed, and plots need it; pip install 'jcw-latency[plot]'")


def draw(found: Mapping[str, Any], network: Network, device: DeviceInfo, path: Path) -> None:
    """Write the figure of one check as PNG, atomically. Arguments as of ``scatter_plots``.

    Raises:
        JcwError: as ``require``.
    """
    require(path)
    figure = scatter_plots(found, network, device)
    with atomic(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def scatter_plots(found: Mapping[str, Any], network: Network, device: DeviceInfo) -> Figure:
    """The two panels.

    Args:
        found: what ``Fidelity.to_dict`` returned.
        network: at full width; its name and input stand in the title.
        device: where it was measured.
    """
    from matplotlib.figure import Figure

    rows = np.array([(p["predicted_ms"], p["measured_ms"], p["macs"] / 1e6) for p in found["points"]])
    # Without pyplot there is no window system to find and no global state.
    figure = Figure(figsize=(10, 5), layout="constrained")
    shape = " x ".join(map(str, network.input_shape))
    figure.suptitle(
        f"{found['networks']} random architectures of {network.name}, input {shape}\n{_where(device)}",
        parse_math=False,
    )
    scatter, twin = figure.subplots(1, 2)
    _scatter(scatter, *rows[:, :2].T)
    scatter.set(title=f"Prediction: MAPE {found['mape']:.1%}, Kendall's tau {found['kendall_tau']:.3f}")
    twin.plot(rows[:, 2], rows[:, 1], "o", markersize=4, alpha=0.7, color="tab:orange")
    twin.set(
        title=f"Multiply-accumulates: Kendall's tau {found['macs_kendall_tau']:.3f}",
        xlabel="multiply-accumulates (millions)",
        xlim=(0, None),
    )
    for axes in (scatter, twin):
        axes.set(ylabel=_MEASURED[found["method"]], ylim=(0, 1.05 * rows[:, :2].max()))
        axes.grid(alpha=0.3)
    return figure


def _where(device: DeviceInfo) -> str:
    threads = f"{device.threads} thread" + ("s" if device.threads != 1 else "")
    return f"{device.name}: " + ", ".join(part for part in (device.cpu, device.isa, threads) if part)


def _scatter(axes: Axes, predicted: Any, measured: Any) -> None:
    """Points, the line on which they would all lie, and a band around it."""
    top = 1.05 * max(predicted.max(), measured.max())
    line = np.array([0.0, top])
    # A prediction is off by a share of what was measured, so the band is about the vertical axis.
    axes.fill_betweenx(
        line,
        line * (1 - _BAND),
        line * (1 + _BAND),
        color="grey",
        alpha=0.15,
        label=f"within {_BAND:.0%}",
        linewidth=0,
    )
    axes.plot(line, line, color="grey", linewidth=1, label="predicted = measured")
    axes.plot(predicted, measured, "o", markersize=4, alpha=0.7)
    axes.set(xlabel="predicted latency (ms)", xlim=(0, top), aspect="equal")
    axes.legend(loc="upper left")

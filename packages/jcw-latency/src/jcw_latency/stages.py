"""The stages ``profile`` and ``measure``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.protocols import Run
from jcw_core.run import records
from jcw_core.space.space import SearchSpace
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.fidelity.check import check
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.profile import profile_space
from jcw_latency.table.predictor import LatencyPredictor
from jcw_latency.table.table import LatencyTable


class ProfileStage:
    """Measures the latency table of the run's network on its device."""

    name = "profile"
    section = "latency"
    options: type[Any] | None = LatencyOptions
    reads = ("network", "data", "device")
    makes = (records.TABLE,)

    def needs(self, run: Run) -> tuple[str, ...]:
        """Nothing but the device."""
        return ()

    def plan(self, run: Run) -> str:
        """The size of its grids, and the networks that it runs whole."""
        options = run.options(LatencyOptions)
        grids = f"{options.widths} x {options.widths} x {options.densities}"
        points = "grids as fine as needed" if options.adaptive else f"at most {grids} points a layer"
        return f"{points}, {options.min_rounds} to {options.rounds} times each; {options.whole_networks} whole networks"

    def run(self, context: Run) -> Sequence[str]:
        """Write the table."""
        device, options = context.open_device(), context.options(LatencyOptions)
        # Before minutes of measuring: an exporter that is not installed.
        exporter = context.registry.exporters[device.model_format] if device.model_format else None
        scratch = context.scratch(self.name)
        table = profile_space(
            SearchSpace.of(context.network),
            device,
            exporter,
            options,
            rng=context.rng(self.name),
            folder=scratch,
            partial=scratch / "samples.npz",
            notify=lambda unit: (
                lambda done, total, detail: context.progress(self.name, unit, done, total, detail)
            ),
            tell=lambda line: context.progress(self.name, "point", 0, 0, line),
        )
        table.write(context.path(records.TABLE))
        return ()


class MeasureStage:
    """Runs the exported models on the device, and random networks to check the predictions."""

    name = "measure"
    section = ""
    options: type[Any] | None = None
    reads = ("network", "data", "device", "space", "latency")
    makes = (records.MEASUREMENTS,)

    def needs(self, run: Run) -> tuple[str, ...]:
        """The models and the table."""
        return (records.EXPORTS, records.TABLE)

    def plan(self, run: Run) -> str:
        """What is run beside the models."""
        options = run.options(LatencyOptions)
        return f"the models and {options.check_networks} random networks, {options.check_rounds} times each"

    def run(self, context: Run) -> Sequence[str]:
        """Write ``measurements.json``."""
        options = context.options(LatencyOptions)
        device = GuardedDevice(context.open_device(), options.timeout)
        records.Measurements(
            device.info,
            _measure_models(context, device, options),
            _fidelity(context, device, options),
        ).write(context.path(records.MEASUREMENTS))
        return ()


def _measure_models(
    context: Run, device: GuardedDevice, options: LatencyOptions
) -> Mapping[str, records.ModelTimes | None]:
    """Times of every exported model by identifier; None on a device that runs no models."""
    exported = _exported(context, device.model_format)
    if not device.model_format:
        return dict.fromkeys(exported)
    seconds = device.measure_models(list(exported.values()), options.check_rounds)
    times = {}
    for name, column in zip(exported, seconds.T, strict=True):
        timed = column[np.isfinite(column)] * 1e3
        if not timed.size:
            raise FormatError(f"{exported[name]}: device {device.info.name!r} could not run this model")
        times[name] = records.ModelTimes(
            float(np.median(timed)), float(timed.min()), float(timed.max()), int(timed.size)
        )
    context.progress("measure", "model", len(times), len(times))
    return times


def _exported(context: Run, model_format: str) -> dict[str, Path]:
    """The file of every model that the device can run, by identifier."""
    index = context.path(records.EXPORTS)
    exports = records.read_exports(index)
    try:
        if not model_format:
            return dict.fromkeys(exports, index)
        return {name: context.path(files[model_format]) for name, files in exports.items()}
    except KeyError:
        raise FormatError(
            f"{index}: not every model was exported as {model_format!r}, which the device runs; "
            f"add {model_format!r} to export.formats"
        ) from None


def _fidelity(context: Run, device: GuardedDevice, options: LatencyOptions) -> Mapping[str, Any] | None:
    if not device.model_format or not options.check_networks:
        return None
    rng, table = context.rng("check"), LatencyTable.read(context.path(records.TABLE))
    table.require(device.info)
    return check(
        LatencyPredictor(table, context.space),
        device,
        context.registry.exporters[device.model_format],
        context.space.sample(options.check_networks, rng),
        rounds=options.check_rounds,
        rng=rng,
        folder=context.scratch("measure"),
        notify=lambda done, total, detail: context.progress("measure", "network", done, total, detail),
    ).to_dict()

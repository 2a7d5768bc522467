"""The stages ``profile`` and ``measure``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.protocols import Run
from jcw_core.run import records
from jcw_core.run.durations import spent
from jcw_core.shown import duration
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.fidelity.check import check
from jcw_latency.fidelity.verdict import Verdict, judge
from jcw_latency.layer_times import by_fused_layer
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.members import covering_members
from jcw_latency.profiling.profile import profile_space
from jcw_latency.profiling.progress import Notify
from jcw_latency.profiling.time_allowed import TimeAllowed
from jcw_latency.table.predictor import LatencyPredictor
from jcw_latency.table.table import LatencyTable

_SHARE = 0.25
"""Of a run's time, what the profile takes at most; most are done before."""
_RUNS = Path("runs")
"""Where `jcw run` has the folders of runs when nobody says."""


class ProfileStage:
    """Measures the latency table of the run's network on its device."""

    name = "profile"
    section = "latency"
    options: type[Any] | None = LatencyOptions
    # The space: the end-to-end fit has to hold where the search goes.
    reads = ("network", "data", "device", "space")
    makes = (records.TABLE,)

    def needs(self, run: Run) -> tuple[str, ...]:
        """Nothing but the device."""
        return ()

    def plan(self, run: Run) -> str:
        """The size of its grids, the networks that it runs whole, and when it ends at the latest."""
        options, seconds = run.options(LatencyOptions), self.ends_after(run)
        grids = f"{options.widths} x {options.widths} x {options.densities}"
        points = "grids as fine as needed" if options.adaptive else f"at most {grids} points a layer"
        end = "" if seconds is None else f"; ends after {duration(seconds)} with what it has"
        times = f"{options.min_rounds} to {options.rounds} times each"
        return f"{points}, {times}; {options.whole_networks} whole networks{end}"

    def ends_after(self, run: Run) -> float | None:
        """What the recipe says, else a share of the run's time."""
        time, own = run.recipe.run.seconds, run.options(LatencyOptions).seconds
        return own if own is not None or time is None else _SHARE * time

    def run(self, run: Run) -> Sequence[str]:
        """Write the table."""
        options = run.options(LatencyOptions)
        device = GuardedDevice.of(run.open_device(), options.timeout, run.registry.exporters)
        scratch = run.scratch(self.name)
        table = profile_space(
            run.space,
            device,
            options,
            rng=run.rng(self.name),
            folder=scratch,
            checkpoint=scratch / "samples.npz",
            notify=_told(run),
            allowed=TimeAllowed(self.ends_after(run), spent(scratch)),
        )
        table.save(run.path(records.TABLE))
        _tell_verdict(run, self.name, judge(table, again=_again(run)))
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

    def run(self, run: Run) -> Sequence[str]:
        """Write ``measurements.json``."""
        options = run.options(LatencyOptions)
        device = GuardedDevice.of(run.open_device(), options.timeout, run.registry.exporters)
        records.Measurements(
            device.info,
            _measure_models(run, device, options),
            _fidelity(run, device, options),
            _measure_layers(run, device, options),
        ).write(run.path(records.MEASUREMENTS))
        return ()


def _measure_models(
    run: Run, device: GuardedDevice, options: LatencyOptions
) -> Mapping[str, records.ModelTimes | None]:
    """Times of every exported model by identifier; None on a device that runs no models."""
    exported = _exported(run, device.model_format)
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
    run.progress("measure", "model", len(times), len(times))
    return times


def _measure_layers(
    run: Run, device: GuardedDevice, options: LatencyOptions
) -> Mapping[str, Mapping[str, float]]:
    """Milliseconds of every exported model's layers by its identifier; empty on a device that does not tell them."""
    exported = _exported(run, device.model_format) if device.model_format else {}
    found = device.measure_layers(list(exported.values()), options.check_rounds)
    if found is None:
        return {}
    return {name: by_fused_layer(run.network, times) for name, times in zip(exported, found, strict=True)}


def _exported(run: Run, model_format: str) -> dict[str, Path]:
    """The file of every model that the device can run, by identifier."""
    index = run.path(records.EXPORTS)
    exports = records.read_exports(index)
    try:
        if not model_format:
            return dict.fromkeys(exports, index)
        return {name: run.path(files[model_format]) for name, files in exports.items()}
    except KeyError:
        raise FormatError(
            f"{index}: not every model was exported as {model_format!r}, which the device runs; "
            f"add {model_format!r} to export.formats"
        ) from None


def _fidelity(run: Run, device: GuardedDevice, options: LatencyOptions) -> Mapping[str, Any] | None:
    if not device.model_format or not options.check_networks:
        return None
    rng, table = run.rng("check"), LatencyTable.load(run.path(records.TABLE))
    table.require(device.info)
    found = check(
        LatencyPredictor(table, run.space),
        device,
        covering_members(run.space, options.check_networks, rng),
        rounds=options.check_rounds,
        rng=rng,
        folder=run.scratch("measure"),
        stage="measure",
        notify=_told(run),
    ).to_dict()
    verdict = judge(table, found, again=_again(run))
    _tell_verdict(run, "measure", verdict)
    return {**found, "verdict": verdict.to_dict()}


def _told(run: Run) -> Notify:
    """Hands progress on to the run's listeners."""
    return lambda event: run.progress(event.stage, event.unit, event.done, event.total, event.detail)


def _tell_verdict(run: Run, stage: str, verdict: Verdict) -> None:
    run.progress(stage, "verdict", 0, 0, str(verdict))


def _again(run: Run) -> str:
    """The command that measures the run's table again, up to the name of an option."""
    runs = run.path(records.TABLE).parent.parent
    words = ["jcw", "run", str(run.recipe.path), *(["--runs", str(runs)] if runs != _RUNS else [])]
    return f"{shlex.join(words)} --set latency."

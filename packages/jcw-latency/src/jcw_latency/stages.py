"""The stages ``profile`` and ``measure``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jcw_core.errors import FormatError
from jcw_core.files import write_json
from jcw_core.recipe.recipe import Recipe
from jcw_core.registry import Registry
from jcw_core.run import records
from jcw_core.run.context import Context
from jcw_latency.devices.guarded import GuardedDevice
from jcw_latency.fidelity.check import check
from jcw_latency.fidelity.verdict import Verdict, judge
from jcw_latency.options import LatencyOptions
from jcw_latency.profiling.members import covering_members
from jcw_latency.profiling.profile import profile_space
from jcw_latency.profiling.progress import Notify
from jcw_latency.table.predictor import LatencyPredictor
from jcw_latency.table.table import LatencyTable, device_document


class ProfileStage:
    """Measures the latency table of the run's network on its device."""

    name = "profile"
    section = "latency"
    options: type[Any] | None = LatencyOptions
    # The space: the end-to-end fit has to hold where the search goes.
    reads = ("network", "data", "device", "space")
    makes = (records.TABLE,)

    def needs(self, recipe: Recipe, registry: Registry) -> tuple[str, ...]:
        """Nothing but the device."""
        return ()

    def run(self, context: Context) -> Sequence[str]:
        """Write the table."""
        options = context.options(LatencyOptions)
        device = GuardedDevice.of(context.open_device(), options.timeout, context.registry.exporters)
        scratch = context.directory.scratch(self.name)
        table = profile_space(
            context.space,
            device,
            options,
            rng=context.rng(self.name),
            folder=scratch,
            checkpoint=scratch / "samples.npz",
            notify=_told(context),
        )
        table.write(context.path(records.TABLE))
        _tell_verdict(context, self.name, judge(table, again=_again(context)))
        return ()


class MeasureStage:
    """Runs the exported models on the device, and random networks to check the predictions."""

    name = "measure"
    section = ""
    options: type[Any] | None = None
    reads = ("network", "data", "device", "space", "latency")
    makes = (records.MEASUREMENTS,)

    def needs(self, recipe: Recipe, registry: Registry) -> tuple[str, ...]:
        """The models and the table."""
        return (records.EXPORTS, records.TABLE)

    def run(self, context: Context) -> Sequence[str]:
        """Write ``measurements.json``."""
        options = context.options(LatencyOptions)
        device = GuardedDevice.of(context.open_device(), options.timeout, context.registry.exporters)
        document = {
            "format": "jcw-measurements/1",
            "device": device_document(device.info),
            "models": _measure_models(context, device, options),
            "fidelity": _fidelity(context, device, options),
        }
        write_json(context.path(records.MEASUREMENTS), document)
        return ()


def _measure_models(
    context: Context, device: GuardedDevice, options: LatencyOptions
) -> Mapping[str, Mapping[str, float] | None]:
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
        times[name] = {
            "median_ms": float(np.median(timed)),
            "min_ms": float(timed.min()),
            "max_ms": float(timed.max()),
            "rounds": int(timed.size),
        }
    context.progress("measure", "model", len(times), len(times))
    return times


def _exported(context: Context, model_format: str) -> dict[str, Path]:
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


def _fidelity(context: Context, device: GuardedDevice, options: LatencyOptions) -> Mapping[str, Any] | None:
    if not device.model_format or not options.check_networks:
        return None
    rng, table = context.rng("check"), LatencyTable.read(context.path(records.TABLE))
    table.require(device.info)
    found = check(
        LatencyPredictor(table, context.space),
        device,
        covering_members(context.space, options.check_networks, rng),
        rounds=options.check_rounds,
        rng=rng,
        folder=context.directory.scratch("measure"),
        stage="measure",
        notify=_told(context),
    ).to_dict()
    verdict = judge(table, found, again=_again(context))
    _tell_verdict(context, "measure", verdict)
    return {**found, "verdict": verdict.to_dict()}


def _told(context: Context) -> Notify:
    """Hands progress on to the run's listeners."""
    return lambda event: context.progress(event.stage, event.unit, event.done, event.total, event.detail)


def _tell_verdict(context: Context, stage: str, verdict: Verdict) -> None:
    context.progress(stage, "verdict", 0, 0, str(verdict))


def _again(context: Context) -> str:
    """The command that measures the run's table again, up to the name of an option."""
    return f"jcw run {context.recipe.path} --set latency."

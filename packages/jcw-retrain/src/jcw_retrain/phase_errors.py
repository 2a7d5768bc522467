"""The error of a model after each phase of its training: ``models/ID/phases.json``, and its section of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from jcw_core.errors import FormatError
from jcw_core.files import read_json, write_json
from jcw_core.protocols import Run
from jcw_core.run.records import EVALUATION, MODELS, ChosenModel, Evaluation, is_amount

_FORMAT = "jcw-phases/1"

HEADS = {
    "search": "estimated by the search",
    "begun": "starting weights",
    "pretrain": "pretrained",
    "admm": "after ADMM",
    "pruned": "pruned",
    "finetune": "fine-tuned",
    "test": "test images",
}
"""What each number of a model is called, in their order."""


@dataclass(frozen=True, slots=True)
class PhaseErrors:
    """Of one model.

    Args:
        errors: share of images classified wrongly, by phase: ``begun``, ``pretrain``, ``admm``, ``pruned``, ``finetune``;
            those that were left out are not there.
        images: how many there were; 0 where they have no labels.
        are_trained_on: whether the model was trained on them, too.
    """

    errors: Mapping[str, float]
    images: int
    are_trained_on: bool

    def write(self, path: Path) -> None:
        """Write ``phases.json``."""
        write_json(path, {"format": _FORMAT, **asdict(self)})

    @classmethod
    def read(cls, path: Path) -> PhaseErrors:
        """Read ``phases.json``. Raises ``FormatError``, with the phase, for anything else."""
        document = read_json(path, kind=_FORMAT, objects=("errors",))
        for phase, error in document["errors"].items():
            if phase not in HEADS or error is None or not is_amount(error):
                raise FormatError(f"{path}: errors[{phase!r:.40}] is {error!r:.40}; run again")
        images, trained = document.get("images"), document.get("are_trained_on")
        if not isinstance(images, int) or not isinstance(trained, bool):
            raise FormatError(f"{path}: images is {images!r:.40}, are_trained_on {trained!r:.40}; run again")
        return cls(document["errors"], images, trained)


def phase_errors_of(model: str) -> str:
    """Where the errors of a model lie, relative to the run."""
    return f"models/{model}/phases.json"


class PhasesSection:
    """The error of each model from the search's estimate to the test images."""

    name = "phases"
    title = "Error after each stage"
    order = 30

    def data(self, run: Run) -> Mapping[str, Any] | None:
        """``images``, ``are_trained_on`` and ``models``, errors by phase; None where images have no labels.

        Raises:
            FormatError: a file of errors is missing or damaged.
        """
        models = ChosenModel.read_all(run.path(MODELS))
        found = {model.id: PhaseErrors.read(run.path(phase_errors_of(model.id))) for model in models}
        if not models or not all(one.errors for one in found.values()):
            return None
        tests = Evaluation.read(run.path(EVALUATION)).models if run.path(EVALUATION).is_file() else {}
        rows = {}
        for model in models:
            test = tests[model.id].test_error if model.id in tests else None
            errors = {"search": model.search_error, **found[model.id].errors, "test": test}
            rows[model.id] = {phase: error for phase, error in errors.items() if error is not None}
        any_of = next(iter(found.values()))
        return {"images": any_of.images, "are_trained_on": any_of.are_trained_on, "models": rows}

    def html(self, data: Mapping[str, Any]) -> str:
        """A row for each model, under a line on which images these are."""
        shown = [phase for phase in HEADS if any(phase in errors for errors in data["models"].values())]
        heads = "".join(f'<th scope="col">{HEADS[phase]}</th>' for phase in shown)
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th>'
            + "".join(f"<td>{_share(errors.get(phase))}</td>" for phase in shown)
            + "</tr>"
            for name, errors in data["models"].items()
        )
        which = (
            "which the models were trained on, too, so these flatter them (<code>retrain.hold_out</code>)"
            if data["are_trained_on"]
            else "which no training has seen"
        )
        return (
            f'<p class="note">Between the first column and the last, errors are on {data["images"]:,} images, {which}.</p>'
            f'<div class="scroll"><table><thead><tr><th scope="col">model</th>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"

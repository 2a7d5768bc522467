"""How far the trainings of a run have come, for those who watch it: which checkpoints and weights are there."""

from __future__ import annotations

from html import escape
from pathlib import Path

_PHASES = ("finetune", "admm", "pretrain")
"""Names of checkpoints, that of the last phase first."""


def so_far(scratch: Path) -> str:
    """A row for each model that has a checkpoint; ``""`` where none has.

    Args:
        scratch: the stage's folder for checkpoints, in the run's own.
    """
    models, folders = (
        scratch.parents[1] / "models",
        sorted(path for path in scratch.glob("*") if path.is_dir()),
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(folder.name)}</th><td>{_state(folder, models / folder.name)}</td></tr>'
        for folder in folders
    )
    return f'<table class="facts"><tbody>{rows}</tbody></table>' if rows else ""


def _state(checkpoints: Path, model: Path) -> str:
    """``trained`` where the weights were written after the last checkpoint, else the phase that this is of."""
    written = {phase: _written(checkpoints / f"{phase}.safetensors") for phase in _PHASES}
    phase = next((phase for phase in _PHASES if written[phase]), "")
    is_trained = phase and _written(model / "weights.safetensors") >= max(written.values())
    return "trained" if is_trained else phase or "begun"


def _written(path: Path) -> float:
    """When a file was, 0 where it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0

"""``models/exports.json``: the files of each exported model.

``{"format": "jcw-exports/1", "models": {id: {exporter name: file relative to the run}}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jcw_core.errors import FormatError
from jcw_core.files import read_json, write_json
from jcw_core.names import is_path_inside, is_plain_name

_FORMAT = "jcw-exports/1"


def write_exports(path: Path, files: Mapping[str, Mapping[str, str]]) -> None:
    """Write ``models/exports.json``.

    Args:
        files: by identifier of a model and name of an exporter, relative to the run.
    """
    write_json(path, {"format": _FORMAT, "models": files})


def read_exports(path: Path) -> dict[str, dict[str, str]]:
    """Read ``models/exports.json``. Raises ``FormatError``, with the model, for anything else."""
    models: dict[str, dict[str, str]] = read_json(path, kind=_FORMAT, objects=("models",))["models"]
    for name, files in models.items():
        if not is_plain_name(name):
            raise FormatError(
                f"{path}: models has {name!r:.60}, expected a name without slashes, as it names a folder; run again"
            )
        if not isinstance(files, dict) or not all(map(is_path_inside, files.values())):
            raise FormatError(
                f"{path}: models[{name!r}] is {files!r:.60}, expected a path inside the run for each exporter; run again"
            )
    return models

"""The ``jcw`` exporter: writes ``model.jcw``."""

from __future__ import annotations

from pathlib import Path

from jcw_core.files import atomic
from jcw_core.network.model import Model
from jcw_kernels.model_file import serialize


class JcwExporter:
    """Writes what the engine runs."""

    name = "jcw"
    suffix = ".jcw"

    def export(self, model: Model, path: Path) -> None:
        """Write ``path`` atomically: network, architecture and only the kept weights."""
        with atomic(path) as temporary:
            temporary.write_bytes(serialize(model))

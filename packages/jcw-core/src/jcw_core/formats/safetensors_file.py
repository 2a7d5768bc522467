"""Weights in safetensors files, with the network in their header."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jcw_core.errors import FormatError, JcwError
from jcw_core.files import atomic, safetensors_metadata
from jcw_core.network.architecture import Architecture
from jcw_core.network.graph import Network
from jcw_core.network.image_input import ImageInput
from jcw_core.network.model import Model


class SafetensorsExporter:
    """``model.safetensors``: every weight by its state-dict name, pruned ones as zeros.

    The header's metadata holds ``{"network": ..., "architecture": ..., "images": ...}`` as JSON under ``jcw``: one
    key, because the order of several changes from run to run.
    """

    name = "safetensors"
    suffix = ".safetensors"

    def export(self, model: Model, path: Path) -> None:
        """Write ``path`` atomically. Raises ``JcwError`` when the package safetensors is not installed."""
        with _needing_safetensors():
            from safetensors.numpy import save as serialize
        architecture = None if model.architecture is None else model.architecture.to_dict()
        note = {"network": json.loads(model.network.to_json()), "architecture": architecture}
        if model.images is not None:
            note["images"] = json.loads(model.images.to_json())
        with atomic(path) as temporary:
            # Not save_file, whose errors do not tell a full disk from bad tensors.
            temporary.write_bytes(serialize(dict(model.weights), metadata={"jcw": json.dumps(note)}))


@contextmanager
def _needing_safetensors() -> Iterator[None]:
    """Say what to install when an import of the block fails."""
    try:
        yield
    except ImportError:
        raise JcwError(
            "safetensors files need the package safetensors: pip install 'jcw-core[safetensors]'"
        ) from None


def load_model(path: Path | str) -> Model:
    """Read what the exporter wrote.

    Raises:
        JcwError: the package safetensors is not installed.
        FormatError: the file is missing, damaged or holds no network.
    """
    with _needing_safetensors():
        from safetensors import SafetensorError
        from safetensors.numpy import load as deserialize
    try:
        content = Path(path).read_bytes()
        weights = deserialize(content)
        note = json.loads(safetensors_metadata(content)["jcw"])
        network = Network.from_json(json.dumps(note["network"]))
        found = note["architecture"]
        architecture = None if found is None else Architecture.from_dict(found)
        images = ImageInput.from_json(json.dumps(note["images"])) if "images" in note else None
        return Model(network, weights, architecture, images)
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file; train the models again") from None
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, JcwError) as error:
        raise FormatError(f"{path}: not a model ({error}); train the models again") from None

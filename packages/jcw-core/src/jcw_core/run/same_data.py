"""Whether all processes of a run see the same images: those of a node may be old, or not all there."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from jcw_core.errors import DataError
from jcw_core.protocols import Dataset
from jcw_core.run.context import Context

_LOOKED_AT = 3
"""Images whose pixels are compared, the first and the last among them."""


def require_same_data(context: Context) -> None:
    """Compare what the processes of a run have; all of them call this.

    Raises:
        DataError: two of them see other training images.
    """
    if context.ranks.size == 1:
        return
    found = context.ranks.gather(_described(context.dataset("training")))
    for rank, other in enumerate(found):
        if other != found[0]:
            raise DataError(
                f"processes 0 and {rank} of this run see other training images: {_words(found[0])} and {_words(other)}; "
                "give all nodes the same files"
            )


def _described(data: Dataset) -> tuple[int, int, str]:
    """Images, classes, and a fingerprint of what tells a dataset from another at little cost."""
    looked_at = np.unique(np.linspace(0, len(data) - 1, _LOOKED_AT).astype(np.intp))
    content = hashlib.sha256(json.dumps([list(data.classes), list(data.image_shape)]).encode())
    content.update(data.labels.tobytes())
    content.update(data.images(looked_at).tobytes())
    return len(data), len(data.classes), content.hexdigest()


def _words(described: tuple[int, int, str]) -> str:
    images, classes, fingerprint = described
    return f"{images} of {classes} classes ({fingerprint[:8]})"

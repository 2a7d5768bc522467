"""Whether a run's network sorts images into the classes of its data, as detectors and segmenters do not."""

from __future__ import annotations

from jcw_core.network.graph import Network
from jcw_core.protocols import Dataset, Run


def classifies(network: Network, data: Dataset) -> bool:
    """True where the network makes one value for each class of the data, and nothing else."""
    return network.num_classes == len(data.classes)


def require_classes(run: Run, table: str, key: str, what: str) -> None:
    """Refuse what needs labels where the network has no classes of the data, or the images have no labels.

    Args:
        run: the run.
        table: of the recipe that asks for it.
        key: likewise.
        what: needs labels.

    Raises:
        RecipeError: the network makes maps or other classes, or the class of an image is not known.
    """
    network, data = run.network, run.dataset("train")
    instead = "the objective 'distance' and no epochs need none"
    if not classifies(network, data):
        raise run.recipe.where.inside(table).error(
            key,
            f"{what} needs labels, but {network.name} makes {network.shapes[network.output.name]} where the data has "
            f"{len(data.classes)} classes; {instead}",
        )
    if (data.labels < 0).any():
        raise run.recipe.where.inside(table).error(
            key, f"{what} needs labels, which the images do not have; {instead}"
        )

"""The two algorithms by name: the assisted search, and the paper's plain one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args

from jcw_core.protocols import Evaluator, Selection
from jcw_core.space.space import SearchSpace
from jcw_search.assisted import AssistedSearch
from jcw_search.errors import SettingError
from jcw_search.evolution import Evolution
from jcw_search.generations import Generations
from jcw_search.operators import Variation

Algorithm = Literal["assisted", "plain"]
_KINDS: Mapping[Algorithm, type[Generations]] = {"assisted": AssistedSearch, "plain": Evolution}


def make(
    algorithm: Algorithm,
    space: SearchSpace,
    evaluators: Mapping[str, Evaluator],
    *,
    generations: int | None = None,
    selection: Selection | None = None,
    variation: Variation | None = None,
    **common: Any,
) -> Generations:
    """A search that is ready to begin.

    Args:
        algorithm: which.
        space, evaluators, common: see ``Generations``.
        generations: the algorithm's own number by default.
        selection, variation: of the plain search alone; its own by default.

    Raises:
        SettingError: an unknown algorithm, or what the assisted search does not have.
    """
    if algorithm not in get_args(Algorithm):
        raise SettingError(
            "algorithm", f"{algorithm!r} is unknown; there is: {', '.join(get_args(Algorithm))}"
        )
    given = {"selection": selection, "variation": variation}
    own: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if algorithm == "assisted" and own:
        raise SettingError(next(iter(own)), 'is of algorithm "plain" alone; give that, or leave it out')
    if generations is not None:
        own["generations"] = generations
    return _KINDS[algorithm](space=space, evaluators=evaluators, **own, **common)


def generations_of(algorithm: Algorithm) -> int:
    """How many follow the first population, where a recipe does not say."""
    found = next(field.default for field in fields(_KINDS[algorithm]) if field.name == "generations")
    assert isinstance(found, int)
    return found

"""Asking objectives for values: what fails is marked, not fatal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jcw_core.errors import PluginError
from jcw_core.protocols import Evaluator, Exact
from jcw_core.ranks import RankError
from jcw_core.space.space import Population, SearchSpace
from jcw_search.errors import SettingError
from jcw_search.pareto import Floats


def is_exact(evaluator: Evaluator) -> bool:
    """True for an evaluator which says that its values are cheap, without noise and hold for ever."""
    return isinstance(evaluator, Exact) and bool(evaluator.exact)


def evaluate(
    space: SearchSpace, evaluators: Mapping[str, Evaluator], rows: Population, patience: int
) -> Floats:
    """All objectives of ``rows``, (n, objectives); NaN where an evaluator failed or gave no finite value.

    Raises:
        JcwError: an objective failed for all of at least ``patience`` rows.
    """
    columns = [value_of(space, name, one, rows, patience) for name, one in evaluators.items()]
    return np.stack(columns, axis=1)


def value_of(space: SearchSpace, name: str, evaluator: Evaluator, rows: Population, patience: int) -> Floats:
    """One objective of ``rows``, (n,); NaN for failures.

    Raises:
        PluginError: values of another shape.
        SettingError: no finite value for any of at least ``patience`` rows.
        Exception: what the evaluator raised for every one of them.
    """
    try:
        found = _finite(name, evaluator.evaluate(space, rows), len(rows))
    except (PluginError, RankError):
        raise
    except Exception as error:
        # Whatever an evaluator of somebody else's raises for one architecture, the others are worth having.
        found = _one_by_one(space, name, evaluator, rows)
        if np.isnan(found).all() and len(rows) >= patience:
            raise error from None
    if np.isnan(found).all() and len(rows) >= patience:
        raise SettingError("objectives", _useless(name, len(rows)))
    return found


def _one_by_one(space: SearchSpace, name: str, evaluator: Evaluator, rows: Population) -> Floats:
    """Find out which architectures fail, where others do not."""
    found = np.full(len(rows), np.nan)
    for index in range(len(rows) if len(rows) > 1 else 0):
        try:
            found[index] = _finite(name, evaluator.evaluate(space, rows[index : index + 1]), 1)[0]
        except (PluginError, RankError):
            raise
        except Exception:
            continue
    return found


def _finite(name: str, values: object, count: int) -> Floats:
    found = np.array(values, dtype=np.float64)
    if found.shape != (count,):
        raise PluginError(f"objective {name!r} gave values of shape {found.shape}, expected ({count},)")
    found[~np.isfinite(found)] = np.nan
    return found


def check_first(names: Sequence[str], objectives: Floats) -> None:
    """Refuse objectives that tell no first architectures apart.

    Raises:
        SettingError: one has no finite value, or the same for all.
    """
    for name, column in zip(names, objectives.T, strict=True):
        finite = column[np.isfinite(column)]
        if not len(finite):
            raise SettingError("objectives", _useless(name, len(column)))
        if len(finite) > 1 and np.ptp(finite) == 0:
            raise SettingError(
                "objectives",
                f"{name!r} is {finite[0]:g} for each of the first {len(finite)} architectures, so there is "
                "nothing to choose by; mend it, or give another",
            )


def _useless(name: str, count: int) -> str:
    return f"{name!r} gave no finite value for any of {count} architectures; mend it, or give another"

"""``FrozenDict``: a mapping that does not change, for the fields of frozen dataclasses."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict without the methods that change it: hashable where its values are, picklable, as fast to read.

    ``types.MappingProxyType`` neither pickles nor hashes, and an object that holds one cannot be copied.
    Annotate with ``Mapping``, so that type checkers refuse changes, too.
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type, tuple[dict[K, V]]]:
        # A dict's own way puts the items in one by one.
        return type(self), (dict(self),)

    def _refuse(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} does not change; make a dict of it first")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

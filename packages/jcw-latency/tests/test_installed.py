"""The installation of jcw-latency alone: its size, and that it brings no torch."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import distribution

from packaging.requirements import Requirement


def needed(name: str, extras: tuple[str, ...] = ()) -> Iterator[str]:
    """A distribution and all that it requires with these extras; some names more than once."""
    yield name
    for text in distribution(name).requires or ():
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield from needed(one.name, tuple(one.extras))


def installed_bytes(name: str) -> int:
    paths = [file.locate() for file in distribution(name).files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())  # type: ignore[attr-defined]


def test_installation_is_at_most_100_megabytes_and_without_torch() -> None:
    sizes = {name: installed_bytes(name) for name in set(needed("jcw-latency"))}
    assert {"jcw-core", "numpy", "click", "rich", "pluggy"} <= sizes.keys()
    assert not {"torch", "scipy", "matplotlib", "jcw-kernels"} & sizes.keys()
    assert sum(sizes.values()) <= 100e6, sizes

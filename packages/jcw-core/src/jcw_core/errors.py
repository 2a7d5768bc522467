"""The exceptions that users see: one base class, one line of text each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class JcwError(Exception):
    """Something the user can put right.

    The message is one line that says what was found, what was expected and what to do, and names
    the layer, file, plugin or key. The ``jcw`` command prints it without a traceback, names the page
    after it, and exits with status 2.

    Args:
        message: that line.
        see: a page that explains more than that of the class does.
    """

    page: str = ""
    """Of the documentation, which explains what is right here; ``""`` where the message says it all."""

    def __init__(self, *message: object, see: str | None = None) -> None:
        super().__init__(*message)
        if see is not None:
            self.page = see


class JcwWarning(UserWarning):
    """Something that goes on, but not as the user may think; one line, which the ``jcw`` command prints as it is."""


class NetworkError(JcwError):
    """A network that is not well formed: unknown operation, wrong attribute, shapes that clash."""

    page = "docs/operations.md"


class ArchitectureError(JcwError):
    """An architecture or a bound that the search space does not contain."""

    page = "docs/concepts.md"


class RecipeError(JcwError):
    """A recipe with an unknown key, a wrong type or an impossible value."""

    page = "docs/recipe.md"


class PluginError(JcwError):
    """A plugin that is unknown, clashes with another or fails to load."""

    page = "docs/hooks.md"


class DataError(JcwError):
    """A data file that is missing, cut short or not what it says it is."""

    page = "docs/tutorial.md"


class FormatError(JcwError):
    """A file of this project (table, front, model) that is damaged or of another kind."""

    page = "docs/files.md"


class DeviceError(JcwError):
    """A device that is absent, cannot do what was asked, or died while doing it."""

    page = "docs/profiling.md"


_EXHAUSTED = "can't allocate memory"
"""What torch's errors say on a processor; of their class are many others."""


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """Say in a line that memory does not suffice for ``what``: a layer or a file, and what is done with it.

    Raises:
        JcwError: the block needs more memory than there is.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and _EXHAUSTED not in str(error):
            raise
        raise JcwError(
            f"{what}: memory does not suffice; end other programs, or take a machine with more or a smaller network"
        ) from None


@contextmanager
def continues_from(kept: Path) -> Iterator[None]:
    """Add to what ends a command's block that it continues from ``kept``, if that is there by then."""
    try:
        yield
    except (DeviceError, OSError, KeyboardInterrupt) as error:
        if kept.exists():
            error.add_note(f"the same command continues from {kept}")
        raise

"""``python -m jcw_core`` is ``jcw``."""

from jcw_core.cli import main

main()

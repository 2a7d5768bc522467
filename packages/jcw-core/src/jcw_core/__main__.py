"""``python -m jcw_core`` is ``jcw``."""

from jcw_core.cli.entry import main

main()

"""``python -m jcw_core`` is ``jcw``."""

from jcw_core.cli.main import main

main()

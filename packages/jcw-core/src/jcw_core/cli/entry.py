"""Where the process of ``jcw`` begins: before anything slow is imported, an interrupt has its one line."""

from __future__ import annotations

from jcw_core.cli.interrupts import end, end_at_interrupts


def main() -> None:
    """Run the command."""
    end_at_interrupts()
    try:
        from jcw_core.cli.main import main as run

        run()
    except KeyboardInterrupt:
        end()

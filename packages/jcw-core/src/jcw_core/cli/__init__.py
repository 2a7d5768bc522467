"""The ``jcw`` command."""

"""The commands ``jcw profile``, ``predict``, ``check`` and ``table``."""

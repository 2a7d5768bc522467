"""The supernet, whose weights all architectures share, and the objectives that it estimates.

Without torch only ``options``, ``stages`` and ``objective`` can be imported.
"""

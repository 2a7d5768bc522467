"""The supernet: a slimmable torch module, its training, and the objectives that it estimates.

The only folder of jcw-core that may import torch; this file, ``options``, ``stage`` and
``objective`` do not.
"""

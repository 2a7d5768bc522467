"""Without torch there is nothing to test here."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import torch

    torch.set_num_threads(1)

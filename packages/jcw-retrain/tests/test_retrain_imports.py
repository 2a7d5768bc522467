"""Listing what jcw-retrain registers does not import torch."""

import subprocess
import sys

CODE = """
import sys
from jcw_retrain import plugin
assert [s.name for s in plugin.jcw_register_stages()] == ["retrain"]
assert "torch" not in sys.modules
"""


def test_listing_is_fast() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

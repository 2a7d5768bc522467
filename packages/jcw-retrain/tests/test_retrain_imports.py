"""Listing what jcw-retrain registers does not import torch."""

import subprocess
import sys

CODE = """
import sys
from jcw_retrain import plugin
stages, exporters = plugin.jcw_register_stages(), plugin.jcw_register_exporters()
assert [s.name for s in stages] == ["retrain", "export"] and exporters[0].name == "safetensors"
assert "torch" not in sys.modules
"""


def test_listing_is_fast() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""What jcw-core registers is listed without torch and the libraries of file formats."""

import subprocess
import sys

LIST = """
import sys
sys.modules["torch"] = sys.modules["safetensors"] = sys.modules["onnx"] = None  # as if they were not installed
from jcw_core import plugin
from jcw_core.errors import JcwError
from jcw_core.run.records import SUPERNET
assert [e.name for e in plugin.jcw_register_exporters()] == ["safetensors", "onnx"]
stage = next(s for s in plugin.jcw_register_stages() if s.name == "supernet")
assert stage.makes == (SUPERNET,) and stage.options().training(3).epochs == 3
objectives = {o.name: o for o in plugin.jcw_register_objectives()}
assert objectives["error"].needs == objectives["loss"].needs == (SUPERNET,)
assert objectives["error"].reads == objectives["loss"].reads == (stage.section,)
planned = lambda context: stage.needs(None)
for attempt in (planned, stage.run, objectives["error"].open):
    try:
        attempt(None)
    except JcwError as error:
        assert "pip install 'jcw-core[supernet]'" in str(error), error
    else:
        raise AssertionError("ran without torch")
"""


def test_without_torch_everything_is_listed_and_running_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", LIST], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

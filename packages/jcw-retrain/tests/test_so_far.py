"""What is shown of trainings while they go on."""

from __future__ import annotations

import os
import re
from pathlib import Path

from jcw_retrain.stages import RetrainStage


def write(path: Path, time: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (time, time))


def test_each_model_has_its_phase(tmp_path: Path) -> None:
    scratch = tmp_path / ".state" / "retrain"
    assert RetrainStage().so_far(scratch) == ""
    write(scratch / "inputs", 1)
    write(scratch / "baseline" / "pretrain.safetensors", 2)
    write(scratch / "baseline" / "finetune.safetensors", 4)
    write(tmp_path / "models" / "baseline" / "weights.safetensors", 5)
    write(scratch / "m1" / "pretrain.safetensors", 3)
    write(scratch / "m1" / "admm.safetensors", 4)
    write(tmp_path / "models" / "m1" / "weights.safetensors", 1)  # of an earlier run
    write(scratch / "<m2>" / "pretrain.safetensors", 4)
    found = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', RetrainStage().so_far(scratch))
    assert found == [("&lt;m2&gt;", "pretrain"), ("baseline", "trained"), ("m1", "admm")]

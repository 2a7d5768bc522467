"""A process that holds models in one runtime and times them when it is told to.

Each runtime lives in a process of its own, perhaps under another interpreter, because some need old
versions of numpy that others do not take. Started by ``networks.py`` as ``python runtimes.py NAME PRECISION
CORES IMAGES MODEL...``; ``IMAGES`` is a ``.npy`` file. It answers in lines of JSON: first what it is and what the
models make of the images, then the seconds of all of them for each line ``{"model": 0, "seconds": 0.1}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Array = Any
Run = Callable[[Array], Array]
"""Runs images (n, channels, height, width) and returns the logits."""


def load_jcw(path: Path, threads: int, batch: int, precision: str) -> Run:
    from jcw_kernels import load

    return load(path, threads=threads).run


def load_onnxruntime(path: Path, threads: int, batch: int, precision: str) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda image: session.run(None, {"input": image})[0]


def load_openvino(path: Path, threads: int, batch: int, precision: str) -> Run:
    import openvino

    # Without the hint a processor with bfloat16 uses it.
    # Of the two halves the faster one here: for bfloat16 there are matrix instructions.
    hint = "bf16" if precision == "float16" else "f32"
    config = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": hint}
    request = openvino.Core().compile_model(str(path), "CPU", config).create_infer_request()
    return lambda image: request.infer([image], share_inputs=True)[0]


def load_deepsparse(path: Path, threads: int, batch: int, precision: str) -> Run:
    from deepsparse import compile_model

    engine = compile_model(str(path), batch_size=batch, num_cores=threads)
    return lambda image: engine.run([image])[0]


def load_mnn(path: Path, threads: int, batch: int, precision: str) -> Run:
    import MNN

    net = MNN.Interpreter(str(convert_for_mnn(path)))
    session = net.createSession({"numThread": threads, "precision": "high", "backend": "CPU"})
    source, result = net.getSessionInput(session), net.getSessionOutput(session)
    caffe, real = MNN.Tensor_DimensionType_Caffe, MNN.Halide_Type_Float

    def run(image: Array) -> Array:
        source.copyFrom(MNN.Tensor(image.shape, real, image, caffe))
        net.runSession(session)
        host = MNN.Tensor(result.getShape(), real, np.zeros(result.getShape(), np.float32), caffe)
        result.copyToHostTensor(host)
        return np.array(host.getData(), np.float32)

    return run


def convert_for_mnn(path: Path) -> Path:
    """Let MNN's converter look for zeros in blocks of four output channels."""
    converted, parameters = path.with_suffix(".mnn"), path.with_suffix(".prune")
    parameters.write_bytes(block_pruning(4))
    command = [str(Path(sys.executable).with_name("mnnconvert")), "-f", "ONNX", "--bizCode", "jcw"]
    command += ["--modelFile", str(path), "--MNNModel", str(converted)]
    command += ["--detectSparseSpeedUp", "--compressionParamsFile", str(parameters)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return converted


def block_pruning(channels: int) -> bytes:
    """MNN's ``Compression.Pipeline`` message with one algorithm: PRUNE, SIMD_OC, ``oc_blocks``.

    Field numbers as in MNN_compression.proto of the package mnncompress 0.3.2, which itself needs a
    protobuf of years ago.
    """

    def part(field: int, content: bytes | int) -> bytes:
        if isinstance(content, int):
            return bytes([field << 3, content])
        return bytes([field << 3 | 2, len(content)]) + content

    blocks = part(4, channels)
    prune = part(1, 1) + part(3, blocks)
    algorithm = part(1, 1) + part(3, prune)
    return part(1, b"0.0.0") + part(2, algorithm)


LOADERS: Mapping[str, tuple[str, Callable[[Path, int, int, str], Run]]] = {
    "jcw": ("jcw-kernels", load_jcw),
    "onnxruntime": ("onnxruntime", load_onnxruntime),
    "openvino": ("openvino", load_openvino),
    "deepsparse": ("deepsparse", load_deepsparse),
    "mnn": ("MNN", load_mnn),
}
"""Distribution and loader by name."""

IN_HALF = ("jcw", "openvino")
"""Those that compute in half precision on x86-64."""


def visit(run: Run, image: Array, seconds: float) -> float:
    """Mean seconds of a run, repeated for about ``seconds`` after a warm-up."""
    run(image)
    start = time.perf_counter()
    run(image)
    repeats = max(1, round(seconds / (time.perf_counter() - start)))
    start = time.perf_counter()
    for _ in range(repeats):
        run(image)
    return (time.perf_counter() - start) / repeats


def main(name: str, precision: str, cores: Sequence[int], image_path: Path, models: Sequence[Path]) -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the runtimes print about themselves goes to standard error
    os.sched_setaffinity(0, cores)
    distribution, loader = LOADERS[name]
    try:
        image = np.load(image_path, allow_pickle=False)
        runs = [loader(path, len(cores), len(image), precision) for path in models]
        outputs = [np.asarray(run(image)).reshape(-1).astype(float).tolist() for run in runs]
        print(json.dumps({"version": version(distribution), "outputs": outputs}), file=answers, flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return
    for line in sys.stdin:
        request = json.loads(line)
        seconds = visit(runs[request["model"]], image, request["seconds"])
        print(json.dumps({"seconds": seconds}), file=answers, flush=True)


if __name__ == "__main__":
    main(
        *sys.argv[1:3],
        [int(core) for core in sys.argv[3].split(",")],
        Path(sys.argv[4]),
        [*map(Path, sys.argv[5:])],
    )

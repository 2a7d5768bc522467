"""Make the stratified subset of Fashion-MNIST under ``data/fashion_mnist/`` from the whole dataset.

    apt-get install dataset-fashion-mnist
    python examples/make_fashion_mnist_subset.py /usr/share/datasets/fashion-mnist

The images are chosen by a seeded generator, so that the same four files come out every time.
"""

from __future__ import annotations

import argparse
import gzip
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jcw_core.datasets.fashion_mnist import PREFIXES, FashionMnist, FashionMnistOptions
from jcw_core.datasets.split import hold_out
from jcw_core.files import atomic

COUNTS = {"train": 10_000, "test": 2_000}
SEED = 0


def main() -> None:
    """Read the folder given on the command line and write the subset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="folder of the whole dataset's idx files")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "fashion_mnist")
    arguments = parser.parse_args()
    for split, count in COUNTS.items():
        whole = FashionMnist().open(split, FashionMnistOptions(arguments.source))
        _, chosen = hold_out(whole, count, np.random.default_rng(SEED))
        prefix = arguments.out / PREFIXES[split]
        write_idx(Path(f"{prefix}-images-idx3-ubyte.gz"), chosen.images(np.arange(count))[:, 0])
        write_idx(Path(f"{prefix}-labels-idx1-ubyte.gz"), chosen.labels.astype(np.uint8))


def write_idx(path: Path, values: NDArray[np.uint8]) -> None:
    """Write bytes in the idx format, gzipped without a time, so that equal values give equal files."""
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    with atomic(path) as temporary:
        temporary.write_bytes(gzip.compress(header + values.tobytes(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main()

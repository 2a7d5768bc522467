"""The modelled Cortex-A72: its program runs, and its caches behave as those of the processor do."""

import subprocess

import pytest
from benchmark_files import BENCHMARKS, run
from programs import needs


@needs("cmake", "g++", "aarch64-linux-gnu-g++", "qemu-aarch64", "llvm-mca-19")
def test_arm_model(tmp_path):
    options = ["--quick", "--build", str(tmp_path / "build"), "--out", str(tmp_path / "a.json")]
    result = run("arm_model.py", *options)
    assert {"compiler", "llvm-mca"} <= result["versions"].keys()
    rows = result["rows"]
    assert len({row["layer"] for row in rows}) == len(rows) == 20, "the convolutions of ResNet-18"
    parts = ("multiply", "other_issue", "l2_wait", "memory_wait", "store_wait", "mispredicted")
    for row in rows:
        assert 0 < row["l2_misses"] <= row["l1_misses"] < row["instructions"]
        assert 0 < row["modelled_low_ms"] <= row["modelled_high_ms"]
        assert row["modelled_high_ms"] == pytest.approx(sum(row[f"{part}_ms"] for part in parts))
        assert 0 < row["fmla_share_of_loop_cycles"] <= 1
        assert row["busiest_loop"]["fmla_issue"] >= 0.95
    (total,) = result["totals"]
    assert total["modelled_high_ms"] == pytest.approx(sum(row["modelled_high_ms"] for row in rows))


ACCESSES = """
#include <cstdio>
#include "memory.hpp"
using arm::Access;
arm::Memory memory;
void print(unsigned line, Access kind, arm::Time cycle) {
  std::printf("%d ", static_cast<int>(memory.access(line, kind, cycle * arm::kCycle).wait / arm::kCycle));
}
int main() {
  print(1, Access::load, 0);           // from memory
  print(1, Access::load, 300);         // known
  for (unsigned i = 1; i < 3; ++i) print(1 + 256 * i, Access::store, 1000 * i);
  print(1, Access::load, 4000);        // the stores took its place in the first cache
  print(9, Access::prefetch, 5000);
  print(9, Access::load, 5100);        // on its way
  print(8, Access::prefetch, 6000);
  print(8, Access::load, 6300);        // there
  for (unsigned i = 0; i < 7; ++i) print(100 + i, Access::prefetch, 7000);
}
"""


@needs("g++")
def test_caches_of_arm_model(tmp_path):
    (tmp_path / "accesses.cpp").write_text(ACCESSES)
    command = [
        "g++",
        "-std=c++20",
        "-I",
        BENCHMARKS / "arm",
        tmp_path / "accesses.cpp",
        "-o",
        tmp_path / "accesses",
    ]
    subprocess.run(command, check=True)
    waits = subprocess.run([tmp_path / "accesses"], check=True, capture_output=True, text=True).stdout.split()
    # Of seven lines from memory, the last one finds all six places taken until the first has arrived.
    assert [int(wait) for wait in waits] == [240, 0, 0, 0, 21, 0, 140, 0, 0, *[0] * 6, 240]

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
    kinds = [("Cortex-A72", "float32"), *(("Cortex-A76", name) for name in ("float32", "float16", "int8"))]
    assert [(total["core"], total["precision"]) for total in result["totals"]] == kinds
    assert len(rows) == 20 == 4 * len({row["layer"] for row in rows}), "the last convolutions of ResNet-18"
    parts = ("multiply", "other_issue", "l2_wait", "memory_wait", "store_wait", "mispredicted")
    for row in rows:
        assert len(row["misses"]) == (2 if row["core"] == "Cortex-A72" else 3), "a count for each cache"
        assert row["misses"][-1] > 0
        assert sorted(row["misses"], reverse=True) == row["misses"]
        assert row["misses"][0] < row["instructions"]
        assert 0 < row["modelled_low_ms"] <= row["modelled_high_ms"]
        assert row["modelled_high_ms"] == pytest.approx(sum(row[f"{part}_ms"] for part in parts))
        assert 0 < row["multiply_share_of_loop_cycles"] <= 1
        assert row["busiest_loop"]["multiply_issue"] >= (0.6 if row["precision"] == "int8" else 0.95)
    for total, kind in zip(result["totals"], kinds, strict=True):
        own = [row for row in rows if (row["core"], row["precision"]) == kind]
        assert total["modelled_high_ms"] == pytest.approx(sum(row["modelled_high_ms"] for row in own))


ACCESSES = """
#include <cstdio>
#include "memory.hpp"
using arm::Access;
arm::Memory memory(6, {{256, 2, 0, 0}, {1024, 16, 21000, 8000}, {0, 0, 240000, 24000}});
arm::Memory three(20, {{1, 1, 0, 0}, {1, 2, 9000, 4000}, {1, 4, 31000, 8000}, {0, 0, 278000, 12000}});
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
  for (unsigned line : {1, 2, 3, 1, 1, 3}) {
    static unsigned cycle = 0;
    const arm::Outcome found = three.access(line, Access::load, (cycle += 1000) * arm::kCycle);
    std::printf("%d/%zu ", static_cast<int>(found.wait / arm::kCycle), found.missed);
  }
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
    said = subprocess.run([tmp_path / "accesses"], check=True, capture_output=True, text=True).stdout.split()
    waits, of_three = said[:-6], said[-6:]
    # Of seven lines from memory, the last one finds all six places taken until the first has arrived.
    assert [int(wait) for wait in waits] == [240, 0, 0, 0, 21, 0, 140, 0, 0, *[0] * 6, 240]
    # Waits and caches that missed, where the three hold one, two and four lines.
    assert of_three == ["278/3", "278/3", "278/3", "31/2", "0/0", "9/1"]

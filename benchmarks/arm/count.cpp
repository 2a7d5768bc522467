// A plugin for qemu-aarch64: how often each instruction runs, and how often its data misses the first cache.
//
//   qemu-aarch64 -plugin libcount.so,out=counts.txt program ...
//
// Writes one line "address executions misses" (hexadecimal, decimal, decimal) per executed instruction.
// The counts are the same on every run. The cache is that of a Cortex-A72: 32 KB, two ways, lines of 64 bytes,
// least recently used; prefetches are ignored, so misses are counted too high rather than too low.
// Declarations follow version 1 of QEMU's plugin interface, which Debian ships without its header.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

extern "C" {
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
using qemu_plugin_id_t = std::uint64_t;
using qemu_plugin_meminfo_t = std::uint32_t;
using Translated = void (*)(qemu_plugin_id_t, qemu_plugin_tb*);
using AtExit = void (*)(qemu_plugin_id_t, void*);
using Access = void (*)(unsigned cpu, qemu_plugin_meminfo_t, std::uint64_t address, void*);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, Translated);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, AtExit, void*);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb*);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb*, std::size_t);
std::uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn*);
void qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_insn*, int operation, void*, std::uint64_t);
void qemu_plugin_register_vcpu_mem_cb(qemu_plugin_insn*, Access, int flags, int read_write, void*);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
__attribute__((visibility("default"))) int qemu_plugin_version = 1;
}

namespace {

constexpr int kAddToCounter = 0, kNoRegisters = 0, kReadsAndWrites = 3;

struct Counter {
  std::uint64_t executions = 0, misses = 0;
};

class Cache {
 public:
  bool miss(std::uint64_t line) {
    std::array<std::uint64_t, 2>& set = lines_[line % lines_.size()];
    if (set[0] == line) return false;
    const bool found = set[1] == line;
    set = {line, set[0]};
    return !found;
  }

 private:
  std::array<std::array<std::uint64_t, 2>, 256> lines_{};
};

std::unordered_map<std::uint64_t, std::unique_ptr<Counter>> counters;
std::mutex mutex;
Cache cache;
std::string out = "counts.txt";

void access(unsigned, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
  const std::uint64_t first = address / 64, last = (address + (1u << qemu_plugin_mem_size_shift(info)) - 1) / 64;
  for (std::uint64_t line = first; line <= last; ++line) static_cast<Counter*>(data)->misses += cache.miss(line);
}

void translated(qemu_plugin_id_t, qemu_plugin_tb* block) {
  const std::scoped_lock lock(mutex);
  for (std::size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
    qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    std::unique_ptr<Counter>& counter = counters[qemu_plugin_insn_vaddr(instruction)];
    if (!counter) counter = std::make_unique<Counter>();
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, kAddToCounter, &counter->executions, 1);
    qemu_plugin_register_vcpu_mem_cb(instruction, access, kNoRegisters, kReadsAndWrites, counter.get());
  }
}

void write(qemu_plugin_id_t, void*) {
  std::FILE* file = std::fopen(out.c_str(), "w");
  if (!file) return;
  for (const auto& [address, counter] : counters)
    std::fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", address, counter->executions, counter->misses);
  std::fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*,
                                                                          int count, char** arguments) {
  for (int i = 0; i < count; ++i)
    if (std::strncmp(arguments[i], "out=", 4) == 0) out = arguments[i] + 4;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, write, nullptr);
  return 0;
}

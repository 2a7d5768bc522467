// A plugin for qemu-aarch64: how often each instruction runs, and how long its data keeps it waiting.
//
//   qemu-aarch64 -plugin libcount.so,core=6/256:2:0:0/1024:16:21:8/0:0:240:24,costs=costs.txt,out=counts.txt program ...
//
// `core` has the lines that may be on their way to the first cache, then sets:ways:latency:line of each level, in cycles.
// `costs` has one line "address thousandths of a cycle" (hexadecimal, decimal) per instruction whose cost is known.
// Their sum is the clock by which memory.hpp tells how long an access waits; waiting moves the clock, too, so that
// nothing but prefetches overlaps. Written is one line per executed instruction: its address (hexadecimal), executions,
// thousandths of a cycle that it waited for the second cache and for what is behind it, lines it missed in each cache. The
// numbers are the same on every run.
//
// QEMU drops prefetches. A program built with JCW_COUNT_PREFETCHES loads a byte to the zero register instead.
// Declarations follow version 1 of QEMU's plugin interface, which Debian ships without its header.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory.hpp"

extern "C" {
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
using qemu_plugin_id_t = std::uint64_t;
using qemu_plugin_meminfo_t = std::uint32_t;
using Translated = void (*)(qemu_plugin_id_t, qemu_plugin_tb*);
using AtExit = void (*)(qemu_plugin_id_t, void*);
using Touched = void (*)(unsigned cpu, qemu_plugin_meminfo_t, std::uint64_t address, void*);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, Translated);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, AtExit, void*);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb*);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb*, std::size_t);
std::uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn*);
const void* qemu_plugin_insn_data(const qemu_plugin_insn*);
void qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_insn*, int operation, void*, std::uint64_t);
void qemu_plugin_register_vcpu_mem_cb(qemu_plugin_insn*, Touched, int flags, int read_write, void*);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
__attribute__((visibility("default"))) int qemu_plugin_version = 1;
}

namespace {

constexpr int kAddToCounter = 0, kNoRegisters = 0, kReadsAndWrites = 3;
constexpr std::uint64_t kLine = 64;

struct Counter {
  bool prefetch;
  std::uint64_t executions = 0;
  arm::Time waits[2] = {0, 0};
  std::vector<std::uint64_t> misses;
};

std::unordered_map<std::uint64_t, std::unique_ptr<Counter>> counters;
std::unordered_map<std::uint64_t, arm::Time> costs;
std::mutex mutex;
std::unique_ptr<arm::Memory> memory;
arm::Time now = 0;
std::string out = "counts.txt";

// ldrb wzr with an unsigned offset, a register or a signed offset.
bool is_prefetch(std::uint32_t code) {
  return (code & 0xffc0001f) == 0x3940001f || (code & 0xffe00c1f) == 0x3860081f || (code & 0xffe00c1f) == 0x3840001f;
}

void touched(unsigned, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
  Counter& counter = *static_cast<Counter*>(data);
  const arm::Access kind = counter.prefetch                 ? arm::Access::prefetch
                           : qemu_plugin_mem_is_store(info) ? arm::Access::store
                                                            : arm::Access::load;
  const std::uint64_t last = (address + (1u << qemu_plugin_mem_size_shift(info)) - 1) / kLine;
  for (std::uint64_t line = address / kLine; line <= last; ++line) {
    const arm::Outcome outcome = memory->access(line, kind, now);
    for (std::size_t cache = 0; cache < outcome.missed; ++cache) ++counter.misses[cache];
    counter.waits[outcome.from > 1] += outcome.wait;
    now += outcome.wait;
  }
}

Counter* make_counter(const qemu_plugin_insn* instruction) {
  std::unique_ptr<Counter>& counter = counters[qemu_plugin_insn_vaddr(instruction)];
  if (!counter) {
    std::uint32_t code;
    std::memcpy(&code, qemu_plugin_insn_data(instruction), sizeof code);
    counter = std::make_unique<Counter>(Counter{is_prefetch(code)});
    counter->misses.resize(memory->caches());
  }
  return counter.get();
}

void translated(qemu_plugin_id_t, qemu_plugin_tb* block) {
  const std::scoped_lock lock(mutex);
  for (std::size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
    qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    Counter* counter = make_counter(instruction);
    const auto cost = costs.find(qemu_plugin_insn_vaddr(instruction));
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, kAddToCounter, &counter->executions, 1);
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, kAddToCounter, &now,
                                               cost == costs.end() ? arm::kCycle : cost->second);
    qemu_plugin_register_vcpu_mem_cb(instruction, touched, kNoRegisters, kReadsAndWrites, counter);
  }
}

bool read_core(const char* text) {
  std::size_t places = 0;
  int used = 0;
  if (std::sscanf(text, "%zu%n", &places, &used) != 1) return false;
  std::vector<arm::Level> levels;
  for (arm::Level level; std::sscanf(text += used, "/%zu:%zu:%" SCNu64 ":%" SCNu64 "%n", &level.sets, &level.ways, &level.latency, &level.line, &used) == 4;)
    levels.push_back({level.sets, level.ways, level.latency * arm::kCycle, level.line * arm::kCycle});
  if (*text || !places || levels.size() < 2) return false;
  memory = std::make_unique<arm::Memory>(places, levels);
  return true;
}

bool read_costs(const char* path) {
  std::FILE* file = std::fopen(path, "r");
  if (!file) return false;
  std::uint64_t address, cost;
  while (std::fscanf(file, "%" SCNx64 " %" SCNu64, &address, &cost) == 2) costs[address] = cost;
  std::fclose(file);
  return true;
}

void write(qemu_plugin_id_t, void*) {
  std::FILE* file = std::fopen(out.c_str(), "w");
  if (!file) return;
  for (const auto& [address, counter] : counters) {
    std::fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64, address, counter->executions, counter->waits[0], counter->waits[1]);
    for (const std::uint64_t missed : counter->misses) std::fprintf(file, " %" PRIu64, missed);
    std::fputc('\n', file);
  }
  std::fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*,
                                                                          int count, char** arguments) {
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(arguments[i], "out=", 4) == 0) out = arguments[i] + 4;
    if (std::strncmp(arguments[i], "core=", 5) == 0 && !read_core(arguments[i] + 5)) return 1;
    if (std::strncmp(arguments[i], "costs=", 6) == 0 && !read_costs(arguments[i] + 6)) return 1;
  }
  if (!memory) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, write, nullptr);
  return 0;
}

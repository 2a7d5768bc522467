// Finding the instruction sets of this build and this processor.
#include "base/isa.hpp"

#include <cstdlib>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/error.hpp"

namespace jcw {
namespace {

using Entry = const Kernels* (*)();

std::vector<Entry> entries() {
  std::vector<Entry> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    found.push_back(jcw_kernels_avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(jcw_kernels_avx2);
#elif defined(__aarch64__)
  found.push_back(jcw_kernels_neon);  // part of the base architecture
#endif
#if defined(__wasm__)
  found.push_back(jcw_kernels_wasm);  // the only one of such a build
#else
  found.push_back(jcw_kernels_scalar);
#endif
  return found;
}

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows these.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}
[[maybe_unused]] bool has_avx512_fp16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 23) && (c & 1u << 6);  // with VBMI2
}
#endif

// Whether the processor's dot products of bytes may be used.
bool dots() {
  const char* forced = std::getenv("JCW_DOT");
  const std::string wanted = forced ? forced : "always";
  if (wanted == "always" || wanted == "never") return wanted == "always";
  throw UsageError("JCW_DOT is '" + wanted + "', expected always or never");
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Entry entry : entries()) names.emplace_back(entry()->name);
  return names;
}

const Kernels& half_kernels([[maybe_unused]] const Kernels& kernels) {
#if defined(JCW_AVX512FP16)
  if (&kernels == jcw_kernels_avx512() && has_avx512_fp16()) return *jcw_half_avx512fp16();
#elif defined(__aarch64__) && defined(__linux__)
  if (&kernels == jcw_kernels_neon() && getauxval(AT_HWCAP) & HWCAP_ASIMDHP) return *jcw_half_neon();
#endif
  return *jcw_half_scalar();
}

const QuantizedKernels& quantized_kernels(const Kernels& kernels) {
  if (!dots()) return *kernels.quantized;
#if defined(__x86_64__)
  if (&kernels == jcw_kernels_avx2() && has_avx_vnni()) return *jcw_quantized_avxvnni();
  if (&kernels == jcw_kernels_avx512() && __builtin_cpu_supports("avx512vnni")) return *jcw_quantized_avx512vnni();
#elif defined(__aarch64__) && defined(__linux__)
  if (&kernels == jcw_kernels_neon() && getauxval(AT_HWCAP) & HWCAP_ASIMDDP) return *jcw_quantized_dotprod();
#endif
  return *kernels.quantized;
}

const Kernels& choose_isa(const std::string& name) {
  const char* forced = std::getenv("JCW_ISA");
  const std::string wanted = !name.empty() ? name : forced ? forced : "";
  std::string known;
  for (const Entry entry : entries()) {
    if (wanted.empty() || wanted == entry()->name) return *entry();
    known += (known.empty() ? "" : ", ") + std::string(entry()->name);
  }
  throw DeviceError("instruction set '" + wanted + "' is not available here; choose one of " + known);
}

}  // namespace jcw

// Every kernel of half precision of one instruction set. There is none in Winograd's form, whose transforms take more digits.
#pragma once

#include "table.inl"

namespace {

void narrow(const float* in, void* out, std::ptrdiff_t begin, std::ptrdiff_t end) {
  element* const to = elements(out);
  std::ptrdiff_t i = begin;
  for (; i + Isa::width <= end; i += Isa::width) {
    Wide<Isa> wide;
    for (int k = 0; k < wide.count; ++k) wide.part[k] = Floats::load(in + i + k * Floats::width);
    Isa::store(to + i, narrowed<Isa>(wide));
  }
  for (; i < end; ++i) to[i] = static_cast<element>(in[i]);
}

constexpr jcw::Kernels half_table() {
  jcw::Kernels table = common_table();
  table.narrow = narrow;
  return table;
}

constexpr jcw::Kernels kTable = half_table();

}  // namespace

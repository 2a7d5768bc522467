// Every kernel of floats of one instruction set.
#pragma once

#include "table.inl"
#include "convolve_rows.inl"
#include "quantized_table.inl"
#include "winograd.inl"
#include "winograd_rows.inl"

namespace {

template <class I = Isa>
constexpr auto rows_kernel() -> decltype(jcw::Kernels::convolve_rows) {
  if constexpr (I::rows_vectors > 0) return convolve_rows<I>;
  return nullptr;
}

constexpr jcw::Kernels whole_table() {
  jcw::Kernels table = common_table();
  table.convolve_rows = rows_kernel();
  table.winograd_points = winograd_points;
  table.winograd_outputs = winograd_outputs;
  table.winograd_row_points = winograd_row_points;
  table.winograd_row_outputs = winograd_row_outputs;
  table.quantized = &kQuantized<Isa::Dot>;
  return table;
}

constexpr jcw::Kernels kTable = whole_table();

}  // namespace

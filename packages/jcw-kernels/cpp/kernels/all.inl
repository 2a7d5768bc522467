// Every kernel of one instruction set, and the table through which the engine finds them. All of it has
// internal linkage: a function shared between object files could carry instructions that the machine lacks.
#pragma once

#include "activation.inl"
#include "tile.inl"
#include "convolve.inl"
#include "convolve_rows.inl"
#include "linear.inl"
#include "phases.inl"
#include "planes.inl"
#include "windowed.inl"
#include "windowed_pairs.inl"
#include "windowed_square.inl"
#include "windowed_strips.inl"
#include "winograd.inl"

namespace {

template <class I = Isa>
constexpr auto rows_kernel() -> decltype(jcw::Kernels::convolve_rows) {
  if constexpr (I::rows_vectors > 0) return convolve_rows<I>;
  return nullptr;
}

constexpr jcw::Kernels kTable = {
    Isa::name, Isa::width, Isa::sparse_vectors, Isa::dense_channels, Isa::dense_vectors,
    Isa::rows_vectors * Isa::width, Isa::rows_pixels, Isa::dense_from, Isa::dense_from_windowed, Isa::rows_finish,
    Isa::strided_cache, Isa::winograd_transform, Isa::winograd_tiles, Isa::winograd_cache,
    convolve, convolve_dense, rows_kernel(), winograd_points, winograd_outputs, windowed, windowed_square<3>,
    windowed_square<5>, windowed_by_two<3>, windowed_by_two<5>, linear, elementwise, relayout,
    split_phases, global_mean, peak,
};

}  // namespace

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
#include "quantized.inl"
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
    .name = Isa::name,
    .tuning = {
        .width = Isa::width,
        .tile_vectors = Isa::sparse_vectors,
        .dense_channels = Isa::dense_channels,
        .dense_vectors = Isa::dense_vectors,
        .rows_channels = Isa::rows_vectors * Isa::width,
        .rows_pixels = Isa::rows_pixels,
        .dense_from = Isa::dense_from,
        .dense_from_windowed = Isa::dense_from_windowed,
        .rows_finish = Isa::rows_finish,
        .strided_cache = Isa::strided_cache,
        .winograd_transform = Isa::winograd_transform,
        .winograd_tiles = Isa::winograd_tiles,
        .winograd_cache = Isa::winograd_cache,
    },
    .convolve = convolve,
    .convolve_dense = convolve_dense,
    .convolve_rows = rows_kernel(),
    .winograd_points = winograd_points,
    .winograd_outputs = winograd_outputs,
    .windowed = windowed,
    .windowed_3 = windowed_square<3>,
    .windowed_5 = windowed_square<5>,
    .windowed_3_by_two = windowed_by_two<3>,
    .windowed_5_by_two = windowed_by_two<5>,
    .linear = linear,
    .elementwise = elementwise,
    .relayout = relayout,
    .split_phases = split_phases,
    .global_mean = global_mean,
    .peak = peak,
    .quantized = &kQuantized<Isa::Dot>,
};

}  // namespace

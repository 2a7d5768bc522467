// The kernels that floats and half precision have in common, and the table through which the engine finds them. All of it has
// internal linkage: a function shared between object files could carry instructions that the machine lacks.
#pragma once

#include "activation.inl"
#include "tile.inl"
#include "convolve.inl"
#include "linear.inl"
#include "phases.inl"
#include "planes.inl"
#include "windowed.inl"
#include "windowed_pairs.inl"
#include "windowed_square.inl"
#include "windowed_strips.inl"

namespace {

constexpr jcw::Tuning kTuning = {
    .width = Isa::width,
    .block = kPixelsPerBlock,
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
};

constexpr jcw::Kernels common_table() {
  return {
      .name = Isa::name,
      .pixel_bytes = sizeof(element),
      .tuning = kTuning,
      .convolve = convolve,
      .convolve_dense = convolve_dense,
      .convolve_rows = nullptr,
      .winograd_points = nullptr,
      .winograd_outputs = nullptr,
      .winograd_row_points = nullptr,
      .winograd_row_outputs = nullptr,
      .windowed = windowed,
      .windowed_3 = windowed_square<3>,
      .windowed_5 = windowed_square<5>,
      .windowed_7 = windowed_square<7>,
      .windowed_3_by_two = windowed_by_two<3>,
      .windowed_5_by_two = windowed_by_two<5>,
      .linear = linear,
      .elementwise = elementwise,
      .relayout = relayout,
      .split_phases = split_phases,
      .global_mean = global_mean,
      .narrow = nullptr,
      .peak = peak,
      .quantized = nullptr,
  };
}

}  // namespace

// The kernels of whole numbers of one kind of dot product.
#pragma once

#include "quantized.inl"
#include "quantized_linear.inl"
#include "quantized_windowed.inl"

namespace {

template <class Dot>
constexpr jcw::QuantizedKernels kQuantized = {
    .name = Dot::name,
    .pixel_bytes = sizeof(typename Dot::pixel),
    .weight_bytes = sizeof(typename Dot::weight),
    .inputs = Dot::inputs,
    .offset = Dot::offset,
    .taps = Dot::taps,
    .gathered_bytes = Dot::units * Dot::granule * static_cast<int>(sizeof(typename PixelsOf<Dot>::type)),
    .quantize = quantize<typename Dot::pixel>,
    .round = quantize<float>,
    .convolve = convolve_quantized<Dot>,
    .windowed = windowed_quantized<Dot>,
    .windowed_by_two = windowed_quantized_by_two<Dot>,
    .windowed_numbers = windowed_numbers_kernel<Dot>(),
    .factors = kFactors<Dot>,
    .linear = linear_quantized<Dot>,
};

}  // namespace

// The seam between the engine and the kernels: plain structs and one table of functions per
// instruction set. Nothing here allocates, throws or owns memory.
//
// Activations are channel-major planes. Rows of a plane lie `row` pixels apart, with zeros in the
// columns past the width; planes lie far enough apart that the zeros between them pad rows above and
// below. So a convolution walks one flat run of pixels per plane, and every kernel tap is a shifted
// start address. Pixels are what a table of kernels says, floats or numbers of half precision; distances
// count them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace jcw {

// What is below 0 times a slope of its channel is `leaky`.
enum class Activation : std::int32_t { none, relu, relu6, hardswish, hardsigmoid, sigmoid, silu, leaky };

// Floats are computed in blocks of this many pixels on every instruction set, so that layouts and
// work splits do not depend on it; half precision in blocks of a vector where one is longer.
inline constexpr int kBlock = 16;

// Entries that an offset list must hold past its end, because inputs are prefetched ahead.
inline constexpr int kAhead = 8;

// Floats to whole numbers: x * inverse, held within low and high, to the nearest, half to even, plus zero. NaN becomes the least.
struct Rounding {
  float inverse, low, high;
  std::int32_t zero;  // less what the pixels of the kernels are less than the numbers that they stand for
};

// Whole numbers that a kernel makes of the floats that it writes or would write.
struct Numbers {
  void* out;             // channel 0, pixel 0; null where none are wanted
  std::ptrdiff_t plane;  // in pixels
  int bytes;             // of a pixel; of 4 they are floats, less the tensor's zero
  Rounding rounding;     // clamps as the activation does
};

// Where a kernel writes: out[channel][pixel] = activation(value + bias + residual) where mask is set, else 0.
struct Target {
  void* out;               // channel 0, pixel 0; null where only numbers are wanted
  Numbers numbers;         // only of activations that are clamps
  const void* residual;    // the same pixels of the tensor to add, or null
  const float* bias;       // one per channel, padded to whole groups
  const float* scales;     // likewise, what sums of whole numbers are worth; null where they are of floats
  const float* slopes;     // one per channel of Activation::leaky, else null
  const std::uint32_t* mask;  // per pixel all ones or, in pad columns, zero
  std::ptrdiff_t out_plane, residual_plane;
  int channels;
  Activation activation;
};

// Convolution by groups of adjacent output channels (4, or the dense tile's count).
//
// With S = starts and i = block * groups + group, that group's entries in a block are S[i] to S[i+1];
// entry e multiplies the pixels at in + offset[e] by the group's weights at weights + e * channels
// per group. Sparse layers have one offset per entry; dense ones share the offsets of all groups.
struct Convolution {
  Target target;
  const void* in;
  const std::int32_t* offsets;
  const void* weights;  // of the pixels' type
  const std::int32_t* starts;
  const std::int32_t* dense_starts;  // first offset of each block; null for sparse layers
  int groups, blocks;
};

struct Quantize {
  const float* in;
  void* out;  // pixels
  Rounding rounding;
};

// Convolution of whole numbers by groups of four adjacent output channels. A product takes `inputs` entries, each the pixels at
// in + one offset: products [starts[group], starts[group + 1]) belong to a group, their weights lie as [product][channel][input].
// Sums begin with `first`, which makes up for zero points and offsets, and are exact; they become floats times the target's scales.
struct QuantizedConvolution {
  Target target;
  const void* in;
  const std::int32_t* offsets;
  const void* weights;
  const std::int32_t* starts;
  const std::int32_t* first;  // one per channel, padded to whole groups
  void* gathered;             // null, or where the inputs of a tile lie for all groups, which then read the same: see gathered_bytes
};

// Depthwise convolution of whole numbers: one plane in, one plane out, the same offsets in every plane. A product takes as many
// pixels as one of QuantizedConvolution takes entries, adjacent ones from in + its offset on; weights lie as
// [channel][product][pixel]. Sums begin with `first` here, too.
struct QuantizedWindowed {
  Target target;
  const void* in;
  std::ptrdiff_t in_plane;  // all phases of one channel
  const std::int32_t* offsets;
  const void* weights;
  const std::int32_t* first;  // one per channel
  const void* keep;           // per pixel, in its size, all ones or, in pad columns, zero; of windowed_numbers
  int products;
  std::ptrdiff_t in_row, out_row;  // of windowed_by_two
  int width;
};

// Dense convolution by groups of rows_channels output channels and rows of pixels. Entry e of every group multiplies the
// pixels at in + offset[e]; weights are [group][entry][channel].
struct ConvolutionRows {
  Target target;  // mask unused
  const float* in;
  const std::int32_t* offsets;
  const float* weights;
  std::ptrdiff_t row;  // of input and output
  int entries, width;
};

// 3 x 3 convolution of stride 1 by tiles of 2 x 2 outputs, numbered row by row. Points and products lie as
// [16 points][channel][tile], `point` and `plane` floats apart.
struct Winograd {
  Target target;    // mask unused
  const float* in;  // channel 0, pixel 0
  std::ptrdiff_t in_plane, in_row, out_row, plane, point;
  int height, width;  // of the output
  int padding_y, padding_x;
  int tiles_per_row;
};

// Rows of a window of 7 columns at a stride of two, as points of tiles of four adjacent outputs. Points lie as [13 points][row][tile],
// `point` floats and `tiles` tiles apart.
struct RowPoints {
  const float* even;  // under the taps 0, 2, 4 and 6 of the first row: every second column of the input
  const float* odd;   // under the taps 1, 3 and 5
  float* points;
  float* lines;  // memory for four lines of `line` floats, two for each tile and a block more
  std::ptrdiff_t in_row, point, line;
  int tiles, width;  // of a row of the output
};

// What becomes of them. Products lie as [7 points][channel][row][tile].
struct RowProducts {
  Target target;  // mask unused
  const float* products;
  std::ptrdiff_t out_row, plane, point;
  int width, tiles;  // of a row of the output
};

// Depthwise convolution and max pooling: one plane in, one plane out, the same taps in every plane.
// Weights are channels x taps; taps that only meet padding are left out where offsets are used.
struct Windowed {
  Target target;
  const void* in;
  const std::int32_t* offsets;  // taps
  const float* weights;         // channels x taps; none where no tap meets a pixel
  std::ptrdiff_t in_plane;      // all phases of one channel
  int taps;
  bool maximum;                 // of the taps, without weights, instead of their sum
  // Kernels that know the window's shape take all taps:
  std::ptrdiff_t in_row, out_row;
  int width, padding_y, padding_x;
};

// Fully connected: out[o] = activation(bias[o] + residual[o] + sum of weight x in).
struct Linear {
  const void* in;
  void* out;
  const void* residual;
  const float* bias;
  const std::int32_t* indices;
  const float* weights;  // entries x 4
  const std::int32_t* starts;
  int outputs;
  Activation activation;
  const float* slopes;  // as in Target
};

// The same of whole numbers, all inputs in order. A product takes QuantizedKernels::factors of them for each output of a group;
// pixels of one more may be read behind the last, whose weights are zeros.
struct QuantizedLinear {
  Linear layer;  // indices, weights and starts unused
  const std::int8_t* weights;  // [group][product][output of the group][input]
  const std::int32_t* first;   // as in QuantizedConvolution, and so are scales
  const float* scales;
  int products;  // of a group
};

enum class Binary : std::int32_t { copy, add, mul, scale };

// Pixel by pixel; `scale` multiplies each plane by one value of b.
struct Elementwise {
  Target target;  // bias and residual unused
  const void* a;
  const void* b;
  std::ptrdiff_t a_plane, b_plane;
  Binary op;
};

// Copies real pixels between layouts.
struct Relayout {
  const void* in;
  void* out;
  std::ptrdiff_t in_plane, in_row, out_plane, out_row;
  int height, width;
};

// A phase, its rows, the number of its plane, and how far before and after an output row kernel taps read it.
// A pair is split together with the next plane, which is (y, 1) where this one is (y, 0).
struct SplitPhase {
  int y, x, rows, plane, low, high;
  bool pair;
};

// Splits planes into their stride phases:
// out[channel][phase][y][x] = in[channel][y * stride_y + phase_y][x * stride_x + phase_x]
// for the rows that the output rows [row_begin, row_end) of an operation read, with all that pads them. Row
// `row_begin` + low is the first of each plane of the output.
struct Split {
  const void* in;
  const void* end;  // nothing is read from there on
  void* out;
  const SplitPhase* phases;
  std::ptrdiff_t in_plane, in_row, out_plane, out_row;
  int width, stride_y, stride_x;
  int count, planes;  // phases, and planes per input channel
  int low, lead;      // `lead` pixels of padding precede each plane
  float fill;         // value of padding
};

// Mean over the flat run of each plane, in whole blocks; padding is zero and adds nothing.
struct GlobalMean {
  const void* in;
  void* out;
  std::ptrdiff_t in_plane;
  int run, pixels;
};

// Sizes of the tiles of one instruction set, and what was measured of them.
struct Tuning {
  int width;           // pixels per vector
  int block;           // pixels that ranges count at once: kBlock, or a longer vector
  int tile_vectors;    // vectors per channel of the sparse tile
  int dense_channels;  // output channels per group of the dense tile
  int dense_vectors;   // vectors per channel of the dense tile
  int rows_channels;   // output channels per group of convolve_rows
  int rows_pixels;     // pixels of its tile
  // Share of kept weight groups from which the dense tile was measured to be the faster one, for 1 x 1 and
  // for larger windows (benchmarks/layers.py).
  double dense_from, dense_from_windowed;
  // What a tile of convolve_rows takes to finish one row of one channel, in multiply-accumulates. Measured.
  double rows_finish;
  // Bytes of input that a tile of a strided convolution may touch before input channels are split into blocks.
  double strided_cache;
  // Winograd's form: what both transforms of one tile of one channel cost, in multiply-accumulates of the dense
  // tile; the number of tiles that fewer take as long as, because weights arrive no faster; and bytes of points that
  // a tile passes over before it is the next group's turn. Measured.
  double winograd_transform, winograd_tiles, winograd_cache;
};

// Kernels of whole numbers, the fastest that a processor has. All of them give the same sums.
struct QuantizedKernels {
  const char* name;
  int pixel_bytes, weight_bytes;
  int inputs;  // entries that meet in one product
  int offset;  // what pixels are less than the numbers 0 to 255 that they stand for
  int taps;    // windows of fewer are faster with floats, as long as their sums are exact; above 1, depthwise ones are, too
  int gathered_bytes;  // of a tile's pixels under the entries of one product, at most
  // Whole blocks of pixels; of floats, which are whole numbers then, less the tensor's zero.
  void (*quantize)(const Quantize&, std::ptrdiff_t begin, std::ptrdiff_t end);
  void (*round)(const Quantize&, std::ptrdiff_t begin, std::ptrdiff_t end);
  void (*convolve)(const QuantizedConvolution&, int block_begin, int block_end, int group_begin, int group_end);
  void (*windowed)(const QuantizedWindowed&, int block_begin, int block_end, int channel_begin, int channel_end);
  // A stride of two, from rows as they lie.
  void (*windowed_by_two)(const QuantizedWindowed&, int row_begin, int row_end, int channel_begin, int channel_end);
  // Where only numbers are written and no residual is added, planes of at least inputs * Tuning::width pixels. Null where lanes
  // of sums are no product's pixels.
  void (*windowed_numbers)(const QuantizedWindowed&, int block_begin, int block_end, int channel_begin, int channel_end);
  int factors;  // inputs of a product of `linear`
  void (*linear)(const QuantizedLinear&, int group_begin, int group_end);
};

// Ranges are half open. Pixels are given in blocks of Tuning::block.
struct Kernels {
  const char* name;
  int pixel_bytes;  // 4: floats, 2: half precision
  Tuning tuning;
  void (*convolve)(const Convolution&, int block_begin, int block_end, int group_begin, int group_end);
  void (*convolve_dense)(const Convolution&, int block_begin, int block_end, int group_begin, int group_end);
  // Null where convolve_dense is the faster one everywhere.
  void (*convolve_rows)(const ConvolutionRows&, int row_begin, int row_end, int group_begin, int group_end);
  // Input planes to the points of the tiles [tile_begin, tile_end), and products of points to outputs. Only of floats.
  void (*winograd_points)(const Winograd&, float* points, int tile_begin, int tile_end, int channel_begin, int channel_end);
  void (*winograd_outputs)(const Winograd&, const float* products, int tile_begin, int tile_end, int channel_begin, int channel_end);
  // Likewise for rows of windows; products lie from the first row and channel of the ranges on.
  void (*winograd_row_points)(const RowPoints&, int rows);
  void (*winograd_row_outputs)(const RowProducts&, int row_begin, int row_end, int channel_begin, int channel_end);
  void (*windowed)(const Windowed&, int block_begin, int block_end, int channel_begin, int channel_end);
  // Square windows of 3, 5 and 7, all taps: depthwise at stride 1; depthwise and pooling at stride 2.
  void (*windowed_3)(const Windowed&, int row_begin, int row_end, int channel_begin, int channel_end);
  void (*windowed_5)(const Windowed&, int row_begin, int row_end, int channel_begin, int channel_end);
  void (*windowed_7)(const Windowed&, int row_begin, int row_end, int channel_begin, int channel_end);
  void (*windowed_3_by_two)(const Windowed&, int row_begin, int row_end, int channel_begin, int channel_end);
  void (*windowed_5_by_two)(const Windowed&, int row_begin, int row_end, int channel_begin, int channel_end);
  void (*linear)(const Linear&, int group_begin, int group_end);
  void (*elementwise)(const Elementwise&, int block_begin, int block_end, int channel_begin, int channel_end);
  void (*relayout)(const Relayout&, int channel_begin, int channel_end);
  void (*split_phases)(const Split&, int row_begin, int row_end, int channel_begin, int channel_end);
  void (*global_mean)(const GlobalMean&, int channel_begin, int channel_end);
  // Floats to pixels; only of half precision.
  void (*narrow)(const float* in, void* out, std::ptrdiff_t begin, std::ptrdiff_t end);
  float (*peak)(int rounds, const void* data);  // the tile loop on data in L1, for benchmarks
  const QuantizedKernels* quantized;  // that run wherever these do; null beside half precision
};

}  // namespace jcw

// Null where this build has no such instruction set.
extern "C" {
const jcw::Kernels* jcw_kernels_scalar();
const jcw::Kernels* jcw_kernels_avx2();
const jcw::Kernels* jcw_kernels_avx512();
const jcw::Kernels* jcw_kernels_neon();
const jcw::Kernels* jcw_kernels_wasm();
const jcw::Kernels* jcw_half_scalar();
const jcw::Kernels* jcw_half_neon();
const jcw::Kernels* jcw_half_avx512fp16();
const jcw::QuantizedKernels* jcw_quantized_avxvnni();
const jcw::QuantizedKernels* jcw_quantized_avx512vnni();
const jcw::QuantizedKernels* jcw_quantized_dotprod();
}

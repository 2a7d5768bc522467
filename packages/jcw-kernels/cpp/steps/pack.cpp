// Packing weights for sparse, dense and Winograd's kernels.
#include "steps/pack.hpp"

#include <algorithm>
#include <array>

#include "base/ranges.hpp"

namespace jcw {
namespace {

int groups_of(const Unit& unit, int channels) { return divide_up(unit.out.channels, channels); }

std::vector<float> padded_bias(const Unit& unit, int channels) {
  std::vector<float> bias = unit.bias;
  bias.resize(static_cast<std::size_t>(groups_of(unit, channels) * channels), 0.0f);
  return bias;
}

// Weight of output channel `out` at (input channel, tap); zero outside its convolution group.
float weight(const Unit& unit, int out, int in, int tap) {
  if (out >= unit.out.channels) return 0.0f;
  const int inputs = unit.in.channels / unit.groups, outputs = unit.out.channels / unit.groups;
  const int local = in - out / outputs * inputs;
  if (local < 0 || local >= inputs) return 0.0f;
  return unit.weight[static_cast<std::size_t>((std::int64_t{out} * inputs + local) * unit.taps() + tap)];
}

// Writes the `channels` weights of a group at one position to `to`; false when all of them are zero.
bool gather(const Unit& unit, int first, int channels, int in, int tap, float* to) {
  bool any = false;
  for (int r = 0; r < channels; ++r) any |= (to[r] = weight(unit, first + r, in, tap)) != 0.0f;
  return any;
}

// Input channels that the output channels [first, first + kGroup) can see.
Range visible(const Unit& unit, int first) {
  const int inputs = unit.in.channels / unit.groups, outputs = unit.out.channels / unit.groups;
  const int last = std::min(first + kGroup, unit.out.channels) - 1;
  return {first / outputs * inputs, (last / outputs + 1) * inputs};
}

void append_group(const Unit& unit, int first, Range channels, const Address& address, Packed& packed) {
  float group[kGroup];
  for (int in = channels.begin; in < channels.end; ++in)
    for (int tap = 0; tap < unit.taps(); ++tap) {
      const std::int32_t offset = address(in, tap / unit.kernel.x, tap % unit.kernel.x);
      if (offset == kNowhere || !gather(unit, first, kGroup, in, tap, group)) continue;
      packed.offsets.push_back(offset);
      packed.weights.insert(packed.weights.end(), group, group + kGroup);
    }
}

// Prefetching reads past the end of the offsets.
void close(Packed& packed) {
  const std::int32_t last = packed.offsets.empty() ? 0 : packed.offsets.back();
  packed.offsets.insert(packed.offsets.end(), kAhead, last);
}

// G of F(2, 3) times three values `step` apart; four values `out_step` apart.
void transform(const double* in, int step, double* out, int out_step) {
  const double ends = 0.5 * (in[0] + in[2 * step]), middle = 0.5 * in[step];
  out[0] = in[0];
  out[out_step] = ends + middle;
  out[2 * out_step] = ends - middle;
  out[3 * out_step] = in[2 * step];
}

// G g G^T of one 3 x 3 window.
std::array<double, 16> transformed(const Unit& unit, int out, int in) {
  std::array<double, 9> window;
  std::array<double, 12> rows;
  std::array<double, 16> points;
  for (int tap = 0; tap < 9; ++tap) window[static_cast<std::size_t>(tap)] = weight(unit, out, in, tap);
  for (int x = 0; x < 3; ++x) transform(window.data() + x, 3, rows.data() + x, 3);
  for (int y = 0; y < 4; ++y) transform(rows.data() + 3 * y, 1, points.data() + 4 * y, 1);
  return points;
}

}  // namespace

void Packed::narrow() {
  halves.resize(weights.size());
  std::transform(weights.begin(), weights.end(), halves.begin(), half_of_float);
  weights = {};
}

Packed pack_sparse(const Unit& unit, int blocks, const Address& address) {
  Packed packed;
  packed.groups = groups_of(unit, kGroup);
  packed.blocks = blocks;
  packed.bias = padded_bias(unit, kGroup);
  for (int block = 0; block < blocks; ++block) {
    const Range own = slice(unit.in.channels, block, blocks);
    for (int group = 0; group < packed.groups; ++group) {
      packed.starts.push_back(static_cast<std::int32_t>(packed.offsets.size()));
      const Range seen = visible(unit, group * kGroup);
      append_group(unit, group * kGroup, {std::max(own.begin, seen.begin), std::min(own.end, seen.end)}, address,
                   packed);
    }
  }
  packed.starts.push_back(static_cast<std::int32_t>(packed.offsets.size()));
  close(packed);
  return packed;
}

namespace {

// Bytes of weights that kernels may load for a product of one channel.
constexpr std::size_t kWeightsRead = 16;

void append_number(float number, int bytes, std::vector<std::byte>& to) {
  const auto value = static_cast<std::int16_t>(number);  // little end first
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(value >> 8 * i & 0xFF));
}

// The weights of `inputs` entries, of which the last may be missing: [channel][input].
void append_product(const std::vector<std::array<float, kGroup>>& entries, std::size_t first, const QuantizedKernels& kernels,
                    std::vector<std::byte>& to) {
  for (std::size_t r = 0; r < kGroup; ++r)
    for (std::size_t i = first; i < first + static_cast<std::size_t>(kernels.inputs); ++i)
      append_number(i < entries.size() ? entries[i][r] : 0.0f, kernels.weight_bytes, to);
}

}  // namespace

std::vector<float> padded_scales(const Unit& unit, int channels) {
  std::vector<float> scales = unit.weight_scale;
  for (float& scale : scales) scale *= unit.input_scale;
  scales.resize(static_cast<std::size_t>(groups_of(unit, channels) * channels), 0.0f);
  return scales;
}

namespace {

// What is kept of a group of four output channels.
struct Entries {
  std::vector<std::int32_t> offsets;
  std::vector<std::array<float, kGroup>> weights;
};

// Those of zeros as well where `all` are wanted.
Entries entries_of(const Unit& unit, int group, const Address& address, bool all = false) {
  Entries entries;
  std::array<float, kGroup> entry;
  for (int in = 0; in < unit.in.channels; ++in)
    for (int tap = 0; tap < unit.taps(); ++tap) {
      const std::int32_t offset = address(in, tap / unit.kernel.x, tap % unit.kernel.x);
      if (offset == kNowhere || !(gather(unit, group * kGroup, kGroup, in, tap, entry.data()) || all)) continue;
      entries.offsets.push_back(offset);
      entries.weights.push_back(entry);
    }
  return entries;
}

// All but offsets, starts and weights.
PackedNumbers pack_outputs(const Unit& unit) {
  PackedNumbers packed;
  packed.groups = groups_of(unit, kGroup);
  packed.bias = padded_bias(unit, kGroup);
  packed.scales = padded_scales(unit, kGroup);
  return packed;
}

// What the sums of a group begin with.
void append_first(const Unit& unit, const Entries& entries, int offset, std::vector<std::int32_t>& to) {
  std::array<std::int32_t, kGroup> sums{};
  for (const auto& entry : entries.weights)
    for (std::size_t r = 0; r < kGroup; ++r) sums[r] += static_cast<std::int32_t>(entry[r]);
  for (const std::int32_t sum : sums) to.push_back((offset - unit.zero) * sum);
}

}  // namespace

PackedNumbers pack_quantized(const Unit& unit, const QuantizedKernels& kernels, const Address& address, bool all) {
  PackedNumbers packed = pack_outputs(unit);
  const auto inputs = static_cast<std::size_t>(kernels.inputs);
  for (int group = 0; group < packed.groups; ++group) {
    packed.starts.push_back(static_cast<std::int32_t>(packed.offsets.size() / inputs));
    const Entries entries = entries_of(unit, group, address, all);
    packed.offsets.insert(packed.offsets.end(), entries.offsets.begin(), entries.offsets.end());
    while (packed.offsets.size() % inputs) packed.offsets.push_back(packed.offsets.back());
    for (std::size_t i = 0; i < entries.weights.size(); i += inputs)
      append_product(entries.weights, i, kernels, packed.weights);
    append_first(unit, entries, kernels.offset, packed.first);
  }
  packed.starts.push_back(static_cast<std::int32_t>(packed.offsets.size() / inputs));
  const std::int32_t last = packed.offsets.empty() ? 0 : packed.offsets.back();
  packed.offsets.insert(packed.offsets.end(), kAhead, last);  // prefetching reads past the end
  return packed;
}

PackedNumbers pack_quantized_linear(const Unit& unit, const QuantizedKernels& kernels, const Address& address) {
  PackedNumbers packed = pack_outputs(unit);
  packed.products = whole(divide_up(unit.in.size(), std::int64_t{kernels.factors}));
  const auto factors = static_cast<std::size_t>(kernels.factors), inputs = static_cast<std::size_t>(packed.products) * factors;
  const std::size_t group_size = kGroup * inputs;
  packed.weights.resize(static_cast<std::size_t>(packed.groups) * group_size);
  for (int group = 0; group < packed.groups; ++group) {
    const Entries entries = entries_of(unit, group, address);
    append_first(unit, entries, kernels.offset, packed.first);
    std::byte* const to = packed.weights.data() + static_cast<std::size_t>(group) * group_size;
    for (std::size_t i = 0; i < entries.offsets.size(); ++i) {
      const auto input = static_cast<std::size_t>(entries.offsets[i]);
      for (std::size_t r = 0; r < kGroup; ++r)
        to[(input / factors * kGroup + r) * factors + input % factors] =
            static_cast<std::byte>(static_cast<std::int8_t>(entries.weights[i][r]));
    }
  }
  return packed;
}

std::vector<std::pair<std::int32_t, int>> reachable_taps(const Unit& unit, const Address& address) {
  std::vector<std::pair<std::int32_t, int>> found;
  for (int tap = 0; tap < unit.taps(); ++tap) {
    const std::int32_t offset = address(0, tap / unit.kernel.x, tap % unit.kernel.x);
    if (offset != kNowhere) found.emplace_back(offset, tap);
  }
  return found;
}

namespace {

// The taps of all products of a depthwise convolution, and where these begin.
struct Slots {
  std::vector<int> taps;  // kNoTap where none multiplies a pixel
  std::vector<std::int32_t> offsets;
};
constexpr int kNoTap = -1;

Slots slots_of(const Unit& unit, std::size_t inputs, const Address& address) {
  Slots slots;
  auto taps = reachable_taps(unit, address);
  std::sort(taps.begin(), taps.end());
  for (const auto& [offset, tap] : taps) {
    const std::int64_t ahead = slots.offsets.empty() ? INT64_MAX : std::int64_t{offset} - slots.offsets.back();
    if (ahead >= static_cast<std::int64_t>(inputs)) {
      slots.offsets.push_back(offset);
      slots.taps.resize(slots.taps.size() + inputs, kNoTap);
    }
    const auto within = static_cast<std::size_t>(offset - slots.offsets.back());
    slots.taps[slots.taps.size() - inputs + within] = tap;
  }
  return slots;
}

}  // namespace

PackedNumbers pack_quantized_windowed(const Unit& unit, const QuantizedKernels& kernels, const Address& address) {
  const auto inputs = static_cast<std::size_t>(kernels.inputs);
  Slots slots = slots_of(unit, inputs, address);
  PackedNumbers packed;
  packed.products = whole(slots.taps.size() / inputs);
  packed.groups = unit.out.channels;
  packed.bias = unit.bias;
  packed.scales = padded_scales(unit, 1);
  packed.offsets = std::move(slots.offsets);
  for (int channel = 0; channel < unit.out.channels; ++channel) {
    std::int32_t sum = 0;
    for (const int tap : slots.taps) {
      const float weight = tap == kNoTap ? 0.0f : unit.weight[static_cast<std::size_t>(channel * unit.taps() + tap)];
      append_number(weight, kernels.weight_bytes, packed.weights);
      sum += static_cast<std::int32_t>(weight);
    }
    packed.first.push_back((kernels.offset - unit.zero) * sum);
  }
  packed.weights.resize(packed.weights.size() + kWeightsRead);
  return packed;
}

Packed pack_dense(const Unit& unit, int channels, int blocks, const Address& address) {
  Packed packed;
  packed.groups = groups_of(unit, channels);
  packed.blocks = blocks;
  packed.bias = padded_bias(unit, channels);
  std::vector<float> row(static_cast<std::size_t>(channels));
  std::int32_t entries = 0;
  for (int block = 0; block < blocks; ++block) {
    packed.dense_starts.push_back(static_cast<std::int32_t>(packed.offsets.size()));
    const Range own = slice(unit.in.channels, block, blocks);
    std::vector<std::pair<int, int>> positions;
    for (int in = own.begin; in < own.end; ++in)
      for (int tap = 0; tap < unit.taps(); ++tap) {
        const std::int32_t offset = address(in, tap / unit.kernel.x, tap % unit.kernel.x);
        if (offset == kNowhere) continue;
        packed.offsets.push_back(offset);
        positions.emplace_back(in, tap);
      }
    for (int group = 0; group < packed.groups; ++group) {
      packed.starts.push_back(entries);
      entries += static_cast<std::int32_t>(positions.size());
      for (const auto& [in, tap] : positions) {
        gather(unit, group * channels, channels, in, tap, row.data());
        packed.weights.insert(packed.weights.end(), row.begin(), row.end());
      }
    }
  }
  packed.starts.push_back(entries);
  close(packed);
  return packed;
}

Packed pack_winograd(const Unit& unit, int channels, int blocks, std::int64_t plane) {
  Packed packed;
  packed.groups = groups_of(unit, channels);
  packed.blocks = blocks;
  packed.bias = padded_bias(unit, channels);
  for (int in = 0; in < unit.in.channels; ++in) packed.offsets.push_back(static_cast<std::int32_t>(in * plane));
  close(packed);
  const std::size_t inputs = static_cast<std::size_t>(unit.in.channels), outputs = packed.bias.size();
  const std::size_t point = inputs * outputs, step = static_cast<std::size_t>(channels);
  packed.weights.resize(16 * point);
  std::size_t at = 0;
  for (int block = 0; block < blocks; ++block) {
    const Range own = slice(unit.in.channels, block, blocks);
    packed.dense_starts.push_back(own.begin);
    for (int group = 0; group < packed.groups; ++group) {
      packed.starts.push_back(static_cast<std::int32_t>(at / step));
      for (int in = own.begin; in < own.end; ++in)
        for (int r = 0; r < channels; ++r, ++at) {
          const std::array<double, 16> points = transformed(unit, group * channels + r, in);
          for (std::size_t p = 0; p < 16; ++p) packed.weights[p * point + at] = static_cast<float>(points[p]);
        }
    }
  }
  packed.starts.push_back(static_cast<std::int32_t>(at / step));
  return packed;
}

namespace {

// G g of the four even taps of a row, then H h of the three odd ones.
std::array<double, 13> row_points(const Unit& unit, int out, int in, int tap_y) {
  double w[7];
  for (int x = 0; x < 7; ++x) w[x] = weight(unit, out, in, tap_y * 7 + x);
  const auto even = [&](double at) { return w[0] + at * (w[2] + at * (w[4] + at * w[6])); };
  const auto odd = [&](double at) { return w[1] + at * (w[3] + at * w[5]); };
  return {-even(0) / 4, -even(1) / 6, even(-1) / 18, even(2) / 72, -even(-2) / 120, even(0.5) * 4 / 45, w[6] / 2,
          odd(0) / 4,   -odd(1) / 6,  -odd(-1) / 6,  odd(2) / 24,  odd(-2) / 24,    w[5]};
}

// Points of even and of odd columns that each product sums.
const std::vector<std::vector<int>> kRowProducts = {{0, 7}, {1, 8}, {2, 9}, {3, 10}, {4, 11}, {5}, {6, 12}};

}  // namespace

Packed pack_winograd_rows(const Unit& unit, int channels, const PointAddress& address) {
  Packed packed;
  packed.groups = groups_of(unit, channels);
  packed.bias = padded_bias(unit, channels);
  std::size_t entries = 0;
  for (const std::vector<int>& points : kRowProducts) {
    packed.dense_starts.push_back(static_cast<std::int32_t>(packed.offsets.size()));
    for (int in = 0; in < unit.in.channels; ++in)
      for (int y = 0; y < unit.kernel.y; ++y)
        for (const int point : points) packed.offsets.push_back(address(point, in, y));
    for (int group = 0; group < packed.groups; ++group) {
      packed.starts.push_back(static_cast<std::int32_t>(entries));
      for (int in = 0; in < unit.in.channels; ++in)
        for (int y = 0; y < unit.kernel.y; ++y)
          for (const int point : points) {
            for (int r = 0; r < channels; ++r) {
              const double value = row_points(unit, group * channels + r, in, y)[static_cast<std::size_t>(point)];
              packed.weights.push_back(static_cast<float>(value));
            }
            ++entries;
          }
    }
  }
  packed.starts.push_back(static_cast<std::int32_t>(entries));
  close(packed);
  return packed;
}

double density(const Unit& unit) {
  float group[kGroup];
  std::int64_t kept = 0, all = 0;
  for (int first = 0; first < unit.out.channels; first += kGroup) {
    const Range channels = visible(unit, first);
    for (int in = channels.begin; in < channels.end; ++in)
      for (int tap = 0; tap < unit.taps(); ++tap, ++all) kept += gather(unit, first, kGroup, in, tap, group);
  }
  return all ? static_cast<double>(kept) / static_cast<double>(all) : 0.0;
}

}  // namespace jcw

// Portable: four floats per vector, in whatever registers the compiler has for them.
#pragma once

namespace {

struct Scalar {
  static constexpr const char* name = "scalar";
  static constexpr int width = 4;
  static constexpr int sparse_vectors = 2;  // vectors per tile of 4 channels
  static constexpr int dense_channels = 4, dense_vectors = 2;
  static constexpr int rows_vectors = 0, rows_pixels = 0;  // no such kernel
  static constexpr double rows_finish = 0;
  static constexpr int plain_vectors = 4;  // vectors per step of one-channel kernels
  static constexpr int strip_vectors[] = {1, 2};  // of one row, at strides of one and two
  static constexpr bool pairs_rows = false;  // vectors are too short
  // above 1: both tiles are of one shape here
  static constexpr double dense_from = 2.0, dense_from_windowed = 2.0;
  static constexpr double strided_cache = 1e9;  // never split
  static constexpr double winograd_transform = 130, winograd_tiles = 16, winograd_cache = 32e3;
  static constexpr int weights_ahead = 512;
  static constexpr bool prefetches_all = false;  // the processor does what is read in order
  static constexpr bool has_masks = false;
  static constexpr bool slides_at_once = false;

  typedef float element;
  typedef float vec __attribute__((vector_size(16)));
  typedef int ivec __attribute__((vector_size(16)));

  static vec load(const float* p) {
    vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(float* p, vec v) { __builtin_memcpy(p, &v, sizeof v); }
  static vec set(float x) { return vec{x, x, x, x}; }
  static vec fma(vec a, vec b, vec c) { return a * b + c; }
  static vec max(vec bound, vec x) { return bound > x ? bound : x; }  // NaN in x passes
  static vec largest(vec a, vec b) { return ((a > b) | (a != a)) ? a : b; }  // NaN in either passes
  static vec min(vec bound, vec x) { return bound < x ? bound : x; }
  static ivec mask(const std::uint32_t* p) {
    ivec m;
    __builtin_memcpy(&m, p, sizeof m);
    return m;
  }
  static vec keep(vec v, ivec mask) { return (vec)((ivec)v & mask); }
  // Even and odd elements of 2 * width floats.
  static void load_pair(const float* p, vec& even, vec& odd) {
    const vec a = load(p), b = load(p + width);
    even = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    odd = __builtin_shufflevector(a, b, 1, 3, 5, 7);
  }
  // The inverse of load_pair: low and high hold even and odd by turns.
  static void interleave(vec even, vec odd, vec& low, vec& high) {
    low = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
    high = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
  }
  // The vector that begins k lanes into a and goes on in b.
  template <int k>
  static vec slide(vec a, vec b) {
    return __builtin_shufflevector(a, b, k, k + 1, k + 2, k + 3);
  }
  template <int channel>
  static vec fma_weight(vec x, const float* weights, vec sum) {
    return fma(x, set(weights[channel]), sum);
  }

  static vec number_or(vec bound, vec x) { return x > bound ? x : bound; }  // the larger; the bound for NaN

  struct Dot {
    static constexpr const char* name = "scalar";
    typedef std::int16_t pixel;
    typedef std::int16_t weight;
    static constexpr int inputs = 1, offset = 0;
    static constexpr int taps = 1;
    static constexpr int granule = 1, units = 2;
    typedef ivec vec;

    static vec set(int x) { return vec{x, x, x, x}; }
    template <int N>
    static void load(const pixel* const (&rows)[inputs], vec (&x)[N]) {
      for (int n = 0; n < N; ++n) {
        const pixel* at = rows[0] + 4 * n;
        x[n] = vec{at[0], at[1], at[2], at[3]};
      }
    }
    static vec add_all(vec x, vec weights, vec sum) {
      return sum + (x >> 16) * (weights >> 16) + (x << 16 >> 16) * (weights << 16 >> 16);
    }
    template <int channel>
    static vec add(vec x, const weight* weights, vec sum) {
      return sum + x * set(weights[channel]);
    }
    template <int N>
    static void to_floats(const vec (&sums)[N], Scalar::vec (&values)[N]) {
      for (int n = 0; n < N; ++n) values[n] = __builtin_convertvector(sums[n], Scalar::vec);
    }
  };
};

}  // namespace

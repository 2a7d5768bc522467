// CRC-32 as in zlib and PNG (ISO 3309, reflected polynomial 0xEDB88320), sixteen bytes at a time by tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace jcw {

class Crc32 {
 public:
  void add(std::span<const std::byte> bytes) {
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 16; at += 16, left -= 16) {
      std::uint32_t words[4];  // little-endian, as the floats of a file are taken to be
      std::memcpy(words, at, 16);
      words[0] ^= state_;
      state_ = 0;
      for (std::size_t w = 0; w < 4; ++w)
        for (std::size_t b = 0; b < 4; ++b) state_ ^= kTables[15 - 4 * w - b][words[w] >> 8 * b & 255];
    }
    for (; left; ++at, --left) state_ = kTables[0][(state_ ^ std::to_integer<std::uint32_t>(*at)) & 255] ^ state_ >> 8;
  }

  std::uint32_t value() const { return ~state_; }

 private:
  // kTables[n][b]: what byte b does to the sum when n bytes follow.
  static constexpr auto kTables = [] {
    std::array<std::array<std::uint32_t, 256>, 16> tables{};
    for (std::uint32_t b = 0; b < 256; ++b) {
      std::uint32_t sum = b;
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
      tables[0][b] = sum;
    }
    for (std::size_t n = 1; n < 16; ++n)
      for (std::size_t b = 0; b < 256; ++b) tables[n][b] = tables[0][tables[n - 1][b] & 255] ^ tables[n - 1][b] >> 8;
    return tables;
  }();

  std::uint32_t state_ = ~0u;
};

}  // namespace jcw

// CRC-32 as in zlib and PNG (ISO 3309, reflected polynomial 0xEDB88320), eight bytes at a time by tables.
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
    for (; left >= 8; at += 8, left -= 8) {
      std::uint32_t low, high;  // little-endian, as the floats of a file are taken to be
      std::memcpy(&low, at, 4);
      std::memcpy(&high, at + 4, 4);
      low ^= state_;
      state_ = kTables[7][low & 255] ^ kTables[6][low >> 8 & 255] ^ kTables[5][low >> 16 & 255] ^ kTables[4][low >> 24] ^
               kTables[3][high & 255] ^ kTables[2][high >> 8 & 255] ^ kTables[1][high >> 16 & 255] ^ kTables[0][high >> 24];
    }
    for (; left; ++at, --left) state_ = kTables[0][(state_ ^ std::to_integer<std::uint32_t>(*at)) & 255] ^ state_ >> 8;
  }

  std::uint32_t value() const { return ~state_; }

 private:
  // kTables[n][b]: what byte b does to the sum when n bytes follow.
  static constexpr auto kTables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> tables{};
    for (std::uint32_t b = 0; b < 256; ++b) {
      std::uint32_t sum = b;
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
      tables[0][b] = sum;
    }
    for (std::size_t n = 1; n < 8; ++n)
      for (std::size_t b = 0; b < 256; ++b) tables[n][b] = tables[0][tables[n - 1][b] & 255] ^ tables[n - 1][b] >> 8;
    return tables;
  }();

  std::uint32_t state_ = ~0u;
};

}  // namespace jcw

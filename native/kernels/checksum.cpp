// CRC-32 (polynomial 0x04C11DB7, reflected): the remainder of the bytes as a polynomial over two elements. Long runs of
// bytes are first folded into sixteen that have the same remainder (simd/folding.h).
#include "checksum.h"

#include <array>

#include "simd/folding.h"

namespace flambeau {
namespace {

// A table per byte of eight: tables[k][b] is the remainder of b followed by k bytes of zero.
constexpr auto tables = [] {
  std::array<std::array<uint32_t, 256>, 8> t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t r = b;
    for (int bit = 0; bit < 8; ++bit) r = (r >> 1) ^ (r & 1 ? 0xEDB88320u : 0);
    t[0][b] = r;
  }
  for (size_t k = 1; k < 8; ++k)
    for (uint32_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 255];
  return t;
}();

// The remainder that follows `r` by n bytes; neither end is inverted.
uint32_t divide(uint32_t r, const uint8_t* p, size_t n) {
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t a = r ^ (p[0] | p[1] << 8 | p[2] << 16 | uint32_t(p[3]) << 24);
    r = tables[7][a & 255] ^ tables[6][a >> 8 & 255] ^ tables[5][a >> 16 & 255] ^ tables[4][a >> 24] ^
        tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
  }
  for (; n; --n, ++p) r = (r >> 8) ^ tables[0][(r ^ *p) & 255];
  return r;
}

}  // namespace

uint32_t crc32(uint32_t before, const uint8_t* bytes, size_t n) {
  alignas(16) uint8_t rest[16];
  if (const size_t folded = fold_bytes(~before, bytes, n, rest))
    return ~divide(divide(0, rest, 16), bytes + folded, n - folded);
  return ~divide(~before, bytes, n);
}

}  // namespace flambeau

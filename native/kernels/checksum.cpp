// CRC-32 (polynomial 0x04C11DB7, reflected): the remainder of the bytes as a polynomial over two elements. With
// carry-less multiplication 64 bytes are folded at a time: what stands n bits before the end counts as its product
// with x^n.
#include "checksum.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flambeau {
namespace {

constexpr uint64_t kPolynomial = 0x104C11DB7;

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

#if defined(__x86_64__)
// x^n mod the polynomial, its bits in the order of the bytes', one place up as products of reflected numbers are.
constexpr int64_t power(int n) {
  uint64_t r = 1, reflected = 0;
  for (int k = 0; k < n; ++k) {
    r <<= 1;
    if (r >> 32) r ^= kPolynomial;
  }
  for (int bit = 0; bit < 32; ++bit) reflected |= (r >> bit & 1) << (32 - bit);
  return int64_t(reflected);
}

__attribute__((target("sse4.1"))) inline __m128i sixteen(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

// x moved ahead by the distance that k stands for, and what is there.
__attribute__((target("pclmul,sse4.1"))) inline __m128i fold(__m128i x, __m128i k, __m128i there) {
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), there);
}

__attribute__((target("pclmul,sse4.1"))) uint32_t divide_folding(uint32_t r, const uint8_t* p, size_t n) {
  const __m128i by64 = _mm_set_epi64x(power(480), power(544)), by16 = _mm_set_epi64x(power(96), power(160));
  __m128i a = _mm_xor_si128(sixteen(p), _mm_cvtsi32_si128(int(r))), b = sixteen(p + 16), c = sixteen(p + 32),
          d = sixteen(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    a = fold(a, by64, sixteen(p));
    b = fold(b, by64, sixteen(p + 16));
    c = fold(c, by64, sixteen(p + 32));
    d = fold(d, by64, sixteen(p + 48));
  }
  a = fold(fold(fold(a, by16, b), by16, c), by16, d);
  for (; n >= 16; p += 16, n -= 16) a = fold(a, by16, sixteen(p));
  alignas(16) uint8_t rest[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(rest), a);
  return divide(divide(0, rest, 16), p, n);
}
#endif

}  // namespace

uint32_t crc32(uint32_t before, const uint8_t* bytes, size_t n) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (fast && n >= 64) return ~divide_folding(~before, bytes, n);
#endif
  return ~divide(~before, bytes, n);
}

}  // namespace flambeau

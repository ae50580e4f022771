// Folds bytes by carry-less multiplication, 64 at a time, where the processor has it: what stands n bits before the end
// of a polynomial over two elements counts as its product with x^n.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flambeau {

#if defined(__x86_64__)
namespace folding {

// x^n mod the polynomial of CRC-32, its bits in the order of the bytes', one place up as products of reflected numbers
// are.
constexpr int64_t power(int n) {
  uint64_t r = 1, reflected = 0;
  for (int k = 0; k < n; ++k) {
    r <<= 1;
    if (r >> 32) r ^= 0x104C11DB7;
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

__attribute__((target("pclmul,sse4.1"))) inline size_t all(uint32_t r, const uint8_t* p, size_t n, uint8_t* rest) {
  const __m128i by64 = _mm_set_epi64x(power(480), power(544)), by16 = _mm_set_epi64x(power(96), power(160));
  const size_t whole = n / 16 * 16;
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
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), a);
  return whole;
}

}  // namespace folding
#endif

// Sixteen bytes with the remainder of r followed by the first bytes of p; how many those are: a multiple of 16, or 0
// where the processor folds nothing or there are fewer than 64.
inline size_t fold_bytes([[maybe_unused]] uint32_t r, [[maybe_unused]] const uint8_t* p, [[maybe_unused]] size_t n,
                         [[maybe_unused]] uint8_t* rest) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (fast && n >= 64) return folding::all(r, p, n, rest);
#endif
  return 0;
}

}  // namespace flambeau

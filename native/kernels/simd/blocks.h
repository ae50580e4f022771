// Blocks of eight by eight words, half words or bytes that the baseline instruction set transposes at once, for kernels
// that are compiled for the baseline alone. Where it has no such instructions, the function does nothing and says so:
// the caller's plain loop does all of it.
#pragma once
#include <cstdint>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace flambeau {

#ifdef __AVX2__
inline constexpr bool kTransposes = true;
// Eight rows of eight words to eight columns; the source is packed, `row` words apart, the destination `step` bytes.
inline void transpose_8x8(const uint32_t* src, int64_t row, char* dst, int64_t step) {
  __m256 r[8], t[8];
  for (int k = 0; k < 8; ++k) r[k] = _mm256_loadu_ps(reinterpret_cast<const float*>(src + k * row));
  for (int k = 0; k < 4; ++k) {
    t[2 * k] = _mm256_unpacklo_ps(r[2 * k], r[2 * k + 1]);
    t[2 * k + 1] = _mm256_unpackhi_ps(r[2 * k], r[2 * k + 1]);
  }
  for (int h = 0; h < 2; ++h) {  // rows 0-3, then 4-7: columns 0 | 4, 1 | 5, 2 | 6, 3 | 7
    const __m256* a = t + 4 * h;
    r[4 * h] = _mm256_shuffle_ps(a[0], a[2], 0x44);
    r[4 * h + 1] = _mm256_shuffle_ps(a[0], a[2], 0xee);
    r[4 * h + 2] = _mm256_shuffle_ps(a[1], a[3], 0x44);
    r[4 * h + 3] = _mm256_shuffle_ps(a[1], a[3], 0xee);
  }
  for (int k = 0; k < 4; ++k) {
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + k * step), _mm256_permute2f128_ps(r[k], r[k + 4], 0x20));
    _mm256_storeu_ps(reinterpret_cast<float*>(dst + (k + 4) * step), _mm256_permute2f128_ps(r[k], r[k + 4], 0x31));
  }
}
inline void transpose_8x8(const uint16_t* src, int64_t row, char* dst, int64_t step) {
  __m128i r[8], t[8];
  for (int k = 0; k < 8; ++k) r[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + k * row));
  for (int k = 0; k < 8; k += 2) {
    t[k] = _mm_unpacklo_epi16(r[k], r[k + 1]);
    t[k + 1] = _mm_unpackhi_epi16(r[k], r[k + 1]);
  }
  for (int h = 0; h < 8; h += 4) {  // of four rows: columns 0 1 | 2 3 | 4 5 | 6 7
    r[h] = _mm_unpacklo_epi32(t[h], t[h + 2]);
    r[h + 1] = _mm_unpackhi_epi32(t[h], t[h + 2]);
    r[h + 2] = _mm_unpacklo_epi32(t[h + 1], t[h + 3]);
    r[h + 3] = _mm_unpackhi_epi32(t[h + 1], t[h + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + 2 * k * step), _mm_unpacklo_epi64(r[k], r[k + 4]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + (2 * k + 1) * step), _mm_unpackhi_epi64(r[k], r[k + 4]));
  }
}
inline void transpose_8x8(const uint8_t* src, int64_t row, char* dst, int64_t step) {
  __m128i r[8], t[4];
  for (int k = 0; k < 8; ++k) r[k] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + k * row));
  for (int k = 0; k < 4; ++k) t[k] = _mm_unpacklo_epi8(r[2 * k], r[2 * k + 1]);
  for (int h = 0; h < 2; ++h) {  // of four rows: columns 0 to 3, 4 to 7
    r[2 * h] = _mm_unpacklo_epi16(t[2 * h], t[2 * h + 1]);
    r[2 * h + 1] = _mm_unpackhi_epi16(t[2 * h], t[2 * h + 1]);
  }
  for (int k = 0; k < 2; ++k) {
    const __m128i low = _mm_unpacklo_epi32(r[k], r[k + 2]), high = _mm_unpackhi_epi32(r[k], r[k + 2]);
    char* to = dst + 4 * k * step;
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), low);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + step), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * step), high);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 3 * step), _mm_unpackhi_epi64(high, high));
  }
}
#else
inline constexpr bool kTransposes = false;
template <class U> inline void transpose_8x8(const U*, int64_t, char*, int64_t) {}
#endif

}  // namespace flambeau

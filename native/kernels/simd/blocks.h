// Blocks of eight numbers that the baseline instruction set converts or transposes at once, for kernels that are
// compiled for the baseline alone. Where it has no such instructions, the functions do nothing and say so: the caller's
// plain loop does all of it.
#pragma once
#include <cstdint>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "../../core/dtype.h"

namespace flambeau {

// How many leading elements are done; the rest, fewer than eight, are the caller's.
#ifdef __AVX2__
inline int64_t convert_blocks(float* to, const float16* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  return i;
}
inline int64_t convert_blocks(float16* to, const float* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
inline int64_t convert_blocks(float* to, const bfloat16* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_slli_epi32(wide, 16));
  }
  return i;
}
inline int64_t convert_blocks(bfloat16* to, const float* from, int64_t n) {  // to nearest even, NaN quiet
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 v = _mm256_loadu_ps(from + i);
    __m256i u = _mm256_castps_si256(v);
    __m256i even = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff))), 16);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    rounded = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_castsi256_si128(packed));
  }
  return i;
}

inline constexpr bool kTransposes = true;
// Eight rows of eight words to eight columns; the source is packed, `row` words apart, the destination `step` bytes.
inline void transpose_8x8(const float* src, int64_t row, char* dst, int64_t step) {
  __m256 r[8], t[8];
  for (int k = 0; k < 8; ++k) r[k] = _mm256_loadu_ps(src + k * row);
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
#else
template <class To, class From>
int64_t convert_blocks(To*, const From*, int64_t) { return 0; }
inline constexpr bool kTransposes = false;
inline void transpose_8x8(const float*, int64_t, char*, int64_t) {}
#endif

}  // namespace flambeau

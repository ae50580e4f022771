// Blocks of eight by eight words that the baseline instruction set transposes at once, for kernels that are compiled
// for the baseline alone. Where it has no such instructions, the function does nothing and says so: the caller's plain
// loop does all of it.
#pragma once
#include <cstdint>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace flambeau {

#ifdef __AVX2__
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
inline constexpr bool kTransposes = false;
inline void transpose_8x8(const float*, int64_t, char*, int64_t) {}
#endif

}  // namespace flambeau

// Vectors of halves, widened to float32 as they are loaded and rounded as they are stored.
#pragma once
#include <cstdint>

#ifdef __F16C__
#include <immintrin.h>

namespace flambeau::FLAMBEAU_SIMD {

#ifdef __AVX512F__
// The first n of 16 lanes; none of n <= 0.
inline __mmask16 first_lanes(int64_t n) { return __mmask16(n >= 16 ? 0xffff : n <= 0 ? 0 : (1u << n) - 1); }
inline __m512 widened(__m256i halves) {  // of bfloat16
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
struct Bfloat16 {
  static __m512 load(const void* p) {
    return widened(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  static __m512 load(const void* p, __mmask16 which) { return widened(_mm256_maskz_loadu_epi16(which, p)); }
};
struct Float16 {
  static constexpr int width = 16;
  static __m512 load(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  static void store(void* p, __m512 v) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
};
#else
struct Bfloat16 {
  static __m256 load(const void* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};
struct Float16 {
  static constexpr int width = 8;
  static __m256 load(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
  static void store(void* p, __m256 v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif

}  // namespace flambeau::FLAMBEAU_SIMD
#endif

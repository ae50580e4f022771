// Codes to codes in one pass: sums and products of two tensors, tables of 256 entries, the largest of windows.
#include "../codes.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace flambeau::FLAMBEAU_SIMD {
namespace {

// No templates of the standard library here: both builds of this file would share one instance of them.
template <class T> constexpr bool is_signed = T(-1) < T(0);

float between(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

template <class T> T code(const Rounding& r, float x) {
  return T(int32_t(between(__builtin_nearbyintf(x), r.low, r.high)) + r.zero);
}

#ifdef __AVX2__
template <class T> __m256i eight(const T* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  if constexpr (is_signed<T>) return _mm256_cvtepi8_epi32(bytes);
  else return _mm256_cvtepu8_epi32(bytes);
}
template <class T> void put(__m256 x, const Rounding& r, T* to) {
  x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(r.low)), _mm256_set1_ps(r.high));
  const __m256i codes = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(r.zero));
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
  const __m128i bytes = is_signed<T> ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
}
#endif

template <class T>
void add_codes(const T* a, Affine of_a, const T* b, Affine of_b, float inverse, const Rounding& r, int64_t n, T* to) {
  const float a_start = of_a.start(), b_start = of_b.start();
  int64_t k = 0;
#ifdef __AVX2__
  const __m256 a_scale = _mm256_set1_ps(of_a.scale), a_from = _mm256_set1_ps(a_start), step = _mm256_set1_ps(inverse),
               b_scale = _mm256_set1_ps(of_b.scale), b_from = _mm256_set1_ps(b_start);
  for (; k + 8 <= n; k += 8) {
    const __m256 x = _mm256_fmadd_ps(_mm256_cvtepi32_ps(eight(a + k)), a_scale, a_from),
                 y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(eight(b + k)), b_scale, b_from);
    put(_mm256_mul_ps(_mm256_add_ps(x, y), step), r, to + k);
  }
#endif
  for (; k < n; ++k) {
    const float x = __builtin_fmaf(float(a[k]), of_a.scale, a_start);
    const float y = __builtin_fmaf(float(b[k]), of_b.scale, b_start);
    to[k] = code<T>(r, (x + y) * inverse);
  }
}
template <class T>
void multiply_codes(const T* a, int32_t a_zero, const T* b, int32_t b_zero, float factor, const Rounding& r, int64_t n,
                    T* to) {
  int64_t k = 0;
#ifdef __AVX2__
  const __m256i a_none = _mm256_set1_epi32(a_zero), b_none = _mm256_set1_epi32(b_zero);
  for (; k + 8 <= n; k += 8) {
    const __m256i x = _mm256_sub_epi32(eight(a + k), a_none), y = _mm256_sub_epi32(eight(b + k), b_none);
    put(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_mullo_epi32(x, y)), _mm256_set1_ps(factor)), r, to + k);
  }
#endif
  for (; k < n; ++k) to[k] = code<T>(r, float((int32_t(a[k]) - a_zero) * (int32_t(b[k]) - b_zero)) * factor);
}

// Sixteen small tables in registers: an index that is not in one gives 0 there.
void look_up(const uint8_t* table, const uint8_t* from, int64_t n, uint8_t* to) {
  int64_t k = 0;
#ifdef __AVX2__
  __m256i parts[16];
  for (int i = 0; i < 16; ++i)
    parts[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * i)));
  const __m256i outside = _mm256_set1_epi8(0x70), step = _mm256_set1_epi8(16);
  for (; k + 32 <= n; k += 32) {
    __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k)), found = _mm256_setzero_si256();
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i, x = _mm256_sub_epi8(x, step))
      found = _mm256_or_si256(found, _mm256_shuffle_epi8(parts[i], _mm256_adds_epu8(x, outside)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), found);
  }
#endif
  for (; k < n; ++k) to[k] = table[from[k]];
}
// The largest of `rows` rows of `across` pixels, for n channels.
template <class T>
void largest(const T* from, int64_t rows, int64_t row, int64_t across, int64_t pixel, int64_t n, T* to) {
  constexpr int64_t kLanes = 32;
  typedef T Lanes __attribute__((vector_size(kLanes)));  // an alias would not take the attribute of a template
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    Lanes best;
    __builtin_memcpy(&best, from + c, sizeof best);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < across; ++j) {
        Lanes x;
        __builtin_memcpy(&x, from + i * row + j * pixel + c, sizeof x);
        best = x > best ? x : best;
      }
    __builtin_memcpy(to + c, &best, sizeof best);
  }
  for (; c < n; ++c) {
    T best = from[c];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < across; ++j) {
        const T x = from[i * row + j * pixel + c];
        best = x > best ? x : best;
      }
    to[c] = best;
  }
}

constexpr PassLoops kLoops{add_codes<uint8_t>, add_codes<int8_t>, multiply_codes<uint8_t>, multiply_codes<int8_t>,
                           look_up,            largest<uint8_t>,  largest<int8_t>};
const PassRegistration registration(FLAMBEAU_LEVEL, kLoops);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

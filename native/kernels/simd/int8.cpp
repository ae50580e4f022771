// Loops on bytes: products of unsigned activations with signed weights, summed in 32 bits.
//
// maddubs multiplies bytes and adds two neighbours in 16 bits, where 2 * 255 * 128 does not fit: it is right for
// activations of 7 bits. Others are widened to 16 bits first. dpbusd sums four neighbours in 32 bits at once.
#include "../int8.h"


#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace flambeau::FLAMBEAU_SIMD {
namespace {

// No templates of the standard library here: both builds of this file would share one instance of them.
void range(const float* x, int64_t n, float* low, float* high) {
  constexpr int kLanes = 16;
  float least[kLanes], most[kLanes];
  int nan[kLanes];
  for (int j = 0; j < kLanes; ++j) least[j] = *low, most[j] = *high, nan[j] = 0;
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (int j = 0; j < kLanes; ++j) {
      const float v = x[k + j];
      least[j] = v < least[j] ? v : least[j];
      most[j] = v > most[j] ? v : most[j];
      nan[j] |= v != v;
    }
  for (int j = 0; k < n; ++k, ++j) {
    least[j] = x[k] < least[j] ? x[k] : least[j];
    most[j] = x[k] > most[j] ? x[k] : most[j];
    nan[j] |= x[k] != x[k];
  }
  for (int j = 0; j < kLanes; ++j) {
    *low = least[j] < *low ? least[j] : *low;
    *high = most[j] > *high ? most[j] : *high;
    nan[0] |= nan[j];
  }
  if (nan[0]) *low = __builtin_nanf("");
}

void quantize(const float* x, int64_t n, float inverse, float zero, int top, uint8_t* q) {
  const float most = float(top);
  for (int64_t k = 0; k < n; ++k) {
    const float code = __builtin_nearbyintf(__builtin_fmaf(x[k], inverse, zero));
    q[k] = uint8_t(int(code < 0.f ? 0.f : code > most ? most : code));
  }
}

int32_t dot_one(const uint8_t* q, const int8_t* w, int64_t from, int64_t k) {
  int32_t sum = 0;
  for (int64_t i = from; i < k; ++i) sum += int32_t(q[i]) * int32_t(w[i]);
  return sum;
}

#if defined(__AVX512BW__) && defined(__AVX512F__)
constexpr int64_t kStep = 64;
using Sum = __m512i;
Sum zero_sum() { return _mm512_setzero_si512(); }
int32_t total(Sum s) { return _mm512_reduce_add_epi32(s); }
template <bool kSeven> Sum add_step(Sum s, const uint8_t* q, const int8_t* w) {
  const __m512i a = _mm512_loadu_si512(q), b = _mm512_loadu_si512(w);
#ifdef __AVX512VNNI__
  return _mm512_dpbusd_epi32(s, a, b);
#else
  if constexpr (kSeven)
    return _mm512_add_epi32(s, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1)));
  const __m512i a0 = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(a)),
                b0 = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(b)),
                a1 = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(a, 1)),
                b1 = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(b, 1));
  return _mm512_add_epi32(s, _mm512_add_epi32(_mm512_madd_epi16(a0, b0), _mm512_madd_epi16(a1, b1)));
#endif
}
#elif defined(__AVX2__)
constexpr int64_t kStep = 32;
using Sum = __m256i;
Sum zero_sum() { return _mm256_setzero_si256(); }
int32_t total(Sum s) {
  __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}
template <bool kSeven> Sum add_step(Sum s, const uint8_t* q, const int8_t* w) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q)),
                b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
#ifdef __AVXVNNI__
  return _mm256_dpbusd_avx_epi32(s, a, b);
#else
  if constexpr (kSeven)
    return _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
  const __m256i a0 = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)),
                b0 = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b)),
                a1 = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(a, 1)),
                b1 = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1));
  return _mm256_add_epi32(s, _mm256_add_epi32(_mm256_madd_epi16(a0, b0), _mm256_madd_epi16(a1, b1)));
#endif
}
#endif

#ifdef __AVX2__
template <bool kSeven> void dot_rows(const uint8_t* q, const int8_t* w, int64_t rows, int64_t k, int32_t* sums) {
  const int64_t whole = k / kStep * kStep;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const int8_t *w0 = w + r * k, *w1 = w0 + k, *w2 = w1 + k, *w3 = w2 + k;
    Sum s0 = zero_sum(), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t i = 0; i < whole; i += kStep) {
      s0 = add_step<kSeven>(s0, q + i, w0 + i);
      s1 = add_step<kSeven>(s1, q + i, w1 + i);
      s2 = add_step<kSeven>(s2, q + i, w2 + i);
      s3 = add_step<kSeven>(s3, q + i, w3 + i);
    }
    sums[r] = total(s0) + dot_one(q, w0, whole, k);
    sums[r + 1] = total(s1) + dot_one(q, w1, whole, k);
    sums[r + 2] = total(s2) + dot_one(q, w2, whole, k);
    sums[r + 3] = total(s3) + dot_one(q, w3, whole, k);
  }
  for (; r < rows; ++r) {
    Sum s = zero_sum();
    for (int64_t i = 0; i < whole; i += kStep) s = add_step<kSeven>(s, q + i, w + r * k + i);
    sums[r] = total(s) + dot_one(q, w + r * k, whole, k);
  }
}
void dot(const uint8_t* q, const int8_t* w, int64_t rows, int64_t k, int32_t* sums, bool seven_bits) {
  if (seven_bits) dot_rows<true>(q, w, rows, k, sums);
  else dot_rows<false>(q, w, rows, k, sums);
}
#else
void dot(const uint8_t* q, const int8_t* w, int64_t rows, int64_t k, int32_t* sums, bool) {
  for (int64_t r = 0; r < rows; ++r) sums[r] = dot_one(q, w + r * k, 0, k);
}
#endif

void dot_floats(const float* x, const int8_t* w, int64_t rows, int64_t k, float* sums) {
  constexpr int kLanes = 16;
  const int64_t whole = k / kLanes * kLanes;
  for (int64_t r = 0; r < rows; ++r) {
    const int8_t* row = w + r * k;
    float lanes[kLanes] = {}, rest = 0;
    for (int64_t i = 0; i < whole; i += kLanes)
      for (int j = 0; j < kLanes; ++j) lanes[j] += x[i + j] * float(row[i + j]);
    for (int64_t i = whole; i < k; ++i) rest += x[i] * float(row[i]);
    for (int half = kLanes / 2; half; half /= 2)
      for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    sums[r] = lanes[0] + rest;
  }
}

const Int8Registration registration(FLAMBEAU_LEVEL, {range, quantize, dot, dot_floats});

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

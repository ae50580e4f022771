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
using Lanes = float __attribute__((vector_size(32)));
void range(const float* x, int64_t n, float* low, float* high) {
  constexpr int kLanes = 8;
  Lanes least = *low - Lanes{}, most = *high - Lanes{}, odd{};  // odd: NaN where a number was infinite or NaN
  auto look = [&](Lanes v) {
    least = v < least ? v : least;
    most = v > most ? v : most;
    odd += v * 0.f;
  };
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    Lanes v;
    __builtin_memcpy(&v, x + k, sizeof v);
    look(v);
  }
  for (; k < n; ++k) look(x[k] - Lanes{});
  float all = 0;
  for (int j = 0; j < kLanes; ++j) {
    *low = least[j] < *low ? least[j] : *low;
    *high = most[j] > *high ? most[j] : *high;
    all += odd[j];
  }
  if (all != all) *low = __builtin_nanf("");
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

// How a vector of products is summed: `step` adds them to the sums in 32-bit lanes, `totals` sums up four vectors.
#if defined(__AVX512BW__) && defined(__AVX512F__)
struct Vectors {
  using Sum = __m512i;
  static constexpr int64_t kStep = 64;
  static constexpr int kInputs = 4;  // with four rows of weights: 16 sums in registers, two loads for four products
  static Sum zero() { return _mm512_setzero_si512(); }
  static __m128i totals(const Sum* s) {
    const Sum a = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1])),
              b = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3])),
              c = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  }
};
struct Seven : Vectors {
  static Sum step(Sum s, const uint8_t* q, const int8_t* w) {
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_loadu_si512(q), _mm512_loadu_si512(w));
    return _mm512_add_epi32(s, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
};
struct Eight : Vectors {
  static Sum step(Sum s, const uint8_t* q, const int8_t* w) {
    const __m512i a = _mm512_loadu_si512(q), b = _mm512_loadu_si512(w);
    const __m512i a0 = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(a)),
                  b0 = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(b)),
                  a1 = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(a, 1)),
                  b1 = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(b, 1));
    return _mm512_add_epi32(s, _mm512_add_epi32(_mm512_madd_epi16(a0, b0), _mm512_madd_epi16(a1, b1)));
  }
};
// Written as text, since files are compiled for processors that lack it; most with AVX-512 have it.
struct Fours : Vectors {
  static Sum step(Sum s, const uint8_t* q, const int8_t* w) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(_mm512_loadu_si512(q)), "v"(_mm512_loadu_si512(w)));
    return s;
  }
};
#elif defined(__AVX2__)
struct Vectors {
  using Sum = __m256i;
  static constexpr int64_t kStep = 32;
  static constexpr int kInputs = 1;  // more sums than four have no registers
  static Sum zero() { return _mm256_setzero_si256(); }
  static __m128i totals(const Sum* s) {
    const __m256i c = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
    return _mm_add_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));
  }
  static __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
};
struct Seven : Vectors {
  static Sum step(Sum s, const uint8_t* q, const int8_t* w) {
    return _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(load(q), load(w)), _mm256_set1_epi16(1)));
  }
};
struct Eight : Vectors {
  static Sum step(Sum s, const uint8_t* q, const int8_t* w) {
    const __m256i a = load(q), b = load(w);
    const __m256i a0 = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)),
                  b0 = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b)),
                  a1 = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(a, 1)),
                  b1 = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1));
    return _mm256_add_epi32(s, _mm256_add_epi32(_mm256_madd_epi16(a0, b0), _mm256_madd_epi16(a1, b1)));
  }
};
#endif

#ifdef __AVX2__
// M rows of the input by four rows of weights.
template <class How, int M>
void tile(const uint8_t* q, const int8_t* w, int64_t k, int32_t* sums, int64_t apart) {
  const int64_t whole = k / How::kStep * How::kStep;
  typename How::Sum s[M][4];
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < 4; ++r) s[i][r] = How::zero();
  for (int64_t t = 0; t < whole; t += How::kStep)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) s[i][r] = How::step(s[i][r], q + i * k + t, w + r * k + t);
  for (int i = 0; i < M; ++i) {
    int32_t found[4];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(found), How::totals(s[i]));
    for (int r = 0; r < 4; ++r) sums[i * apart + r] = found[r] + dot_one(q + i * k, w + r * k, whole, k);
  }
}
template <class How>
void dots_by(const uint8_t* q, int64_t m, const int8_t* w, int64_t rows, int64_t k, int32_t* sums) {
  const int64_t fours = rows / 4 * 4;
  for (int64_t r = 0; r < fours; r += 4) {
    int64_t i = 0;
    for (; i + How::kInputs <= m; i += How::kInputs)
      tile<How, How::kInputs>(q + i * k, w + r * k, k, sums + i * rows + r, rows);
    for (; i < m; ++i) tile<How, 1>(q + i * k, w + r * k, k, sums + i * rows + r, rows);
  }
  for (int64_t r = fours; r < rows; ++r)
    for (int64_t i = 0; i < m; ++i) sums[i * rows + r] = dot_one(q + i * k, w + r * k, 0, k);
}
void dots(const uint8_t* q, int64_t m, const int8_t* w, int64_t rows, int64_t k, int32_t* sums, bool seven_bits) {
#ifdef __AVX512F__
  static const bool fours = __builtin_cpu_supports("avx512vnni");
  if (fours) return dots_by<Fours>(q, m, w, rows, k, sums);
#endif
  if (seven_bits) dots_by<Seven>(q, m, w, rows, k, sums);
  else dots_by<Eight>(q, m, w, rows, k, sums);
}
#else
void dots(const uint8_t* q, int64_t m, const int8_t* w, int64_t rows, int64_t k, int32_t* sums, bool) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t r = 0; r < rows; ++r) sums[i * rows + r] = dot_one(q + i * k, w + r * k, 0, k);
}
#endif

void finish(const Int8Features& f, const int32_t* products, int64_t input_sum, int64_t first, int64_t count,
            float* to) {
  const int64_t z = f.input_zero;
  const int32_t *sums = f.sums + first, *zeros = f.zeros + (f.one_zero ? 0 : first);
  const float *scales = f.scales + (f.one_scale ? 0 : first), *bias = f.bias ? f.bias + first : nullptr;
  int64_t total[16];
  float scale[16];
  for (int64_t done = 0; done < count; done += 16) {
    const int64_t n = count - done < 16 ? count - done : 16;
    for (int64_t r = 0; r < n; ++r) total[r] = products[done + r] - z * sums[done + r];
    if (!f.one_zero)
      for (int64_t r = 0; r < n; ++r) total[r] += zeros[done + r] * (f.k * z - input_sum);
    else if (*zeros)
      for (int64_t r = 0; r < n; ++r) total[r] += *zeros * (f.k * z - input_sum);
    for (int64_t r = 0; r < n; ++r) scale[r] = f.input_scale * scales[f.one_scale ? 0 : done + r];
    if (bias) for (int64_t r = 0; r < n; ++r) to[done + r] = __builtin_fmaf(float(total[r]), scale[r], bias[done + r]);
    else for (int64_t r = 0; r < n; ++r) to[done + r] = float(total[r]) * scale[r];
  }
}

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

constexpr Int8Loops kLoops{range, quantize, dots, finish, dot_floats};
const Int8Registration registration(FLAMBEAU_LEVEL, kLoops);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

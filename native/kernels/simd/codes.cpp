// Loops on codes: products of 16-bit numbers summed in pairs, and sums that become codes of 8 bits.
#include "../codes.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace flambeau::FLAMBEAU_SIMD {
namespace {

void widen(const uint8_t* x, int64_t n, int32_t zero, int16_t* to) {
  const int16_t z = int16_t(zero);
  for (int64_t k = 0; k < n; ++k) to[k] = int16_t(x[k] - z);
}

#if defined(__AVX512BW__) && defined(__AVX512F__)
constexpr int64_t kPixels = 12;
struct Sum {  // 16 channels
  __m512i v;
  void clear() { v = _mm512_setzero_si512(); }
  void store(int32_t* to) const { _mm512_storeu_si512(to, v); }
};
struct Weights {
  __m512i v;
  void load(const int16_t* w) { v = _mm512_loadu_si512(w); }
  void load(const int8_t* w) { v = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w))); }
};
struct Pairs {
  static void add(Sum& s, int32_t pair, const Weights& w) {
    s.v = _mm512_add_epi32(s.v, _mm512_madd_epi16(_mm512_set1_epi32(pair), w.v));
  }
};
// Written as text, since files are compiled for processors that lack it; most with AVX-512 have it.
struct FusedPairs {
  static void add(Sum& s, int32_t pair, const Weights& w) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(s.v) : "v"(_mm512_set1_epi32(pair)), "v"(w.v));
  }
};
#elif defined(__AVX2__)
constexpr int64_t kPixels = 6;
struct Sum {
  __m256i a, b;
  void clear() { a = b = _mm256_setzero_si256(); }
  void store(int32_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), b);
  }
};
struct Weights {
  __m256i a, b;
  void load(const int16_t* w) {
    a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 16));
  }
  void load(const int8_t* w) {
    a = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w)));
    b = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + 16)));
  }
};
struct Pairs {
  static void add(Sum& s, int32_t pair, const Weights& w) {
    const __m256i x = _mm256_set1_epi32(pair);
    s.a = _mm256_add_epi32(s.a, _mm256_madd_epi16(x, w.a));
    s.b = _mm256_add_epi32(s.b, _mm256_madd_epi16(x, w.b));
  }
};
#else
constexpr int64_t kPixels = 4;
struct Sum {
  int32_t v[kBlock];
  void clear() { for (int32_t& x : v) x = 0; }
  void store(int32_t* to) const { for (int64_t c = 0; c < kBlock; ++c) to[c] = v[c]; }
};
struct Weights {
  int16_t v[2 * kBlock];
  template <class W> void load(const W* w) { for (int64_t c = 0; c < 2 * kBlock; ++c) v[c] = w[c]; }
};
struct Pairs {
  static void add(Sum& s, int32_t pair, const Weights& w) {
    int16_t x[2];
    __builtin_memcpy(x, &pair, sizeof x);
    for (int64_t c = 0; c < kBlock; ++c) s.v[c] += x[0] * w.v[2 * c] + x[1] * w.v[2 * c + 1];
  }
};
#endif

template <class How, class W, int R>
void tile_of(const int16_t* const* at, const int64_t* taps, int64_t ntaps, int64_t pairs, const W* w, int32_t* sums) {
  Sum s[R];
  for (Sum& one : s) one.clear();
  for (int64_t t = 0; t < ntaps; ++t) {
    const int16_t* x[R];
    for (int r = 0; r < R; ++r) x[r] = at[r] + taps[t];
    for (int64_t i = 0; i < pairs; ++i, w += 2 * kBlock) {
      Weights of;
      of.load(w);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        int32_t pair;
        __builtin_memcpy(&pair, x[r] + 2 * i, sizeof pair);
        How::add(s[r], pair, of);
      }
    }
  }
  for (int r = 0; r < R; ++r) s[r].store(sums + r * kBlock);
}

template <class How, class W, int R = 1>
void tile_by(const int16_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs, const W* w,
             int32_t* sums) {
  if (rows == R) return tile_of<How, W, R>(at, taps, ntaps, pairs, w, sums);
  if constexpr (R < kPixels) tile_by<How, W, R + 1>(at, rows, taps, ntaps, pairs, w, sums);
}
template <class How>
void tile_how(const int16_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs,
              const void* weights, bool wide, int32_t* sums) {
  if (wide) tile_by<How>(at, rows, taps, ntaps, pairs, static_cast<const int16_t*>(weights), sums);
  else tile_by<How>(at, rows, taps, ntaps, pairs, static_cast<const int8_t*>(weights), sums);
}
void tile(const int16_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs,
          const void* weights, bool wide, int32_t* sums) {
#ifdef __AVX512BW__
  static const bool fused = __builtin_cpu_supports("avx512vnni");
  if (fused) return tile_how<FusedPairs>(at, rows, taps, ntaps, pairs, weights, wide, sums);
#endif
  tile_how<Pairs>(at, rows, taps, ntaps, pairs, weights, wide, sums);
}

void depthwise(const int16_t* at, const int64_t* taps, int64_t ntaps, const int16_t* w, int64_t channels,
               int32_t* sums) {
  for (int64_t c = 0; c < channels; c += kBlock) {
#ifdef __AVX2__
    auto load = [](const int16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); };
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int64_t t = 0; t < ntaps; t += 2, w += 2 * kBlock) {
      const __m256i a = load(at + taps[t] + c), b = t + 1 < ntaps ? load(at + taps[t + 1] + c) : _mm256_setzero_si256();
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), load(w)));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), load(w + kBlock)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + c), _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + c + 8), _mm256_permute2x128_si256(low, high, 0x31));
#else
    for (int64_t k = 0; k < kBlock; ++k) sums[c + k] = 0;
    for (int64_t t = 0; t < ntaps; t += 2, w += 2 * kBlock)
      for (int64_t k = 0; k < kBlock; ++k) {
        sums[c + k] += at[taps[t] + c + k] * w[depthwise_place(k, 0)];
        if (t + 1 < ntaps) sums[c + k] += at[taps[t + 1] + c + k] * w[depthwise_place(k, 1)];
      }
#endif
  }
}

float between(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

template <bool added>
void finish_how(const Requantized& how, const int32_t* sums, int64_t n, int64_t first, int64_t at, uint8_t* to) {
  const float low = float(how.low - how.zero), high = float(255 - how.zero);
  const float *bias = how.bias + first, *factors = how.factors + first;
  for (int64_t j = 0; j < n; ++j) {
    float x = (float(sums[j]) + bias[j]) * factors[j];
    if constexpr (added) x += float(int32_t(how.added[at + j]) - how.added_zero) * how.added_factor;
    to[j] = uint8_t(int32_t(between(__builtin_nearbyintf(x), low, high)) + how.zero);
  }
}
void finish(const Requantized& how, const int32_t* sums, int64_t n, int64_t first, int64_t at, uint8_t* to) {
  if (how.added) finish_how<true>(how, sums, n, first, at, to);
  else finish_how<false>(how, sums, n, first, at, to);
}

constexpr CodesLoops kLoops{kPixels, widen, tile, depthwise, finish};
const CodesRegistration registration(FLAMBEAU_LEVEL, kLoops);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

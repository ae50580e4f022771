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

// One row of n sums; what is added lies where the result does.
template <bool added>
void finish_row(const Requantized& how, const int32_t* sums, int64_t n, const float* bias, const float* factors,
                const uint8_t* plus, uint8_t* to) {
  const float low = float(how.low - how.zero), high = float(255 - how.zero);
  int64_t j = 0;
#ifdef __AVX2__
  const __m256 least = _mm256_set1_ps(low), most = _mm256_set1_ps(high), step = _mm256_set1_ps(how.added_factor);
  const __m256i zero = _mm256_set1_epi32(how.zero), added_zero = _mm256_set1_epi32(how.added_zero);
  auto eight = [&](int64_t k) {
    __m256 x = _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + k)));
    x = _mm256_mul_ps(_mm256_add_ps(x, _mm256_loadu_ps(bias + k)), _mm256_loadu_ps(factors + k));
    if constexpr (added) {
      const __m256i q = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(plus + k)));
      x = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(q, added_zero)), step, x);
    }
    x = _mm256_min_ps(_mm256_max_ps(x, least), most);
    return _mm256_add_epi32(_mm256_cvtps_epi32(x), zero);
  };
  for (; j + 16 <= n; j += 16) {
    const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(eight(j), eight(j + 8)), 0xd8);
    const __m128i codes = _mm_packus_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + j), codes);
  }
#endif
  for (; j < n; ++j) {
    float x = (float(sums[j]) + bias[j]) * factors[j];
    if constexpr (added) x = __builtin_fmaf(float(int32_t(plus[j]) - how.added_zero), how.added_factor, x);
    to[j] = uint8_t(int32_t(__builtin_nearbyintf(between(x, low, high))) + how.zero);
  }
}
void finish(const Requantized& how, const int32_t* sums, int64_t rows, int64_t apart, int64_t n, int64_t first,
            int64_t at, int64_t row, uint8_t* to) {
  for (int64_t r = 0; r < rows; ++r, sums += apart, at += row)
    if (how.added) finish_row<true>(how, sums, n, how.bias + first, how.factors + first, how.added + at, to + at);
    else finish_row<false>(how, sums, n, how.bias + first, how.factors + first, nullptr, to + at);
}

// --- minimal filtering -----------------------------------------------------------------------------------------------

using Shorts = int16_t __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));
using Words = uint32_t __attribute__((vector_size(32)));
template <class V, class From> V take(const From* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
Shorts take_bytes(const int8_t* p) {
#ifdef __AVX2__
  return Shorts(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  Shorts v;
  for (int k = 0; k < 16; ++k) v[k] = p[k];
  return v;
#endif
}
template <class V, class To> void put(To* p, V v) { __builtin_memcpy(p, &v, sizeof v); }

void filter_input(const int16_t* x, int64_t row, int64_t channels, int16_t* to, int64_t apart) {
  using V = Shorts;
  for (int64_t c = 0; c < channels; c += 16) {
    V d[4][4];
    for (int64_t i = 0; i < 4; ++i) {
      const int16_t* at = x + i * row + c;
      const V a = take<Shorts>(at), b = take<Shorts>(at + channels), e = take<Shorts>(at + 2 * channels),
              f = take<Shorts>(at + 3 * channels);
      d[i][0] = a - e, d[i][1] = b + e, d[i][2] = e - b, d[i][3] = b - f;
    }
    for (int64_t j = 0; j < 4; ++j) {
      int16_t* at = to + j * apart + c;
      put(at, d[0][j] - d[2][j]);
      put(at + 4 * apart, d[1][j] + d[2][j]);
      put(at + 8 * apart, d[2][j] - d[1][j]);
      put(at + 12 * apart, d[1][j] - d[3][j]);
    }
  }
}

void filter_weights(const int8_t* w, int64_t channels, int16_t* to) {
  using V = Shorts;
  const int64_t pairs = channels / 2, apart = pairs * 2 * kBlock;
  for (int64_t k = 0; k < 2 * pairs; ++k) {  // halves of a pair: 8 output channels
    V g[3][4];
    for (int64_t i = 0; i < 3; ++i) {
      const int8_t* at = w + i * 3 * apart + k * 16;
      const V x[3] = {take_bytes(at), take_bytes(at + apart), take_bytes(at + 2 * apart)};
      const V ends = x[0] + x[2];
      g[i][0] = x[0] + x[0], g[i][1] = ends + x[1], g[i][2] = ends - x[1], g[i][3] = x[2] + x[2];
    }
    for (int64_t j = 0; j < 4; ++j) {
      int16_t* at = to + j * apart + k * 16;
      const V ends = g[0][j] + g[2][j];
      put(at, g[0][j] + g[0][j]);
      put(at + 4 * apart, ends + g[1][j]);
      put(at + 8 * apart, ends - g[1][j]);
      put(at + 12 * apart, g[2][j] + g[2][j]);
    }
  }
}

// Sums may wrap on the way; the last ones, four times those of the convolution, fit.
void filter_output(const int32_t* sums, int64_t apart, int32_t* to) {
  using V = Words;
  for (int64_t c = 0; c < kBlock; c += 8) {
    V m[2][4];
    for (int64_t j = 0; j < 4; ++j) {
      auto at = [&](int64_t i) { return take<Words>(sums + (4 * i + j) * apart + c); };
      const V b = at(1), e = at(2);
      m[0][j] = at(0) + b + e, m[1][j] = b - e - at(3);
    }
    for (int64_t i = 0; i < 2; ++i) {
      put(to + 2 * i * kBlock + c, Ints(m[i][0] + m[i][1] + m[i][2]) >> 2);
      put(to + (2 * i + 1) * kBlock + c, Ints(m[i][1] - m[i][2] - m[i][3]) >> 2);
    }
  }
}

constexpr CodesLoops kLoops{kPixels,      widen,          tile,         depthwise, finish,
                            filter_input, filter_weights, filter_output};
const CodesRegistration registration(FLAMBEAU_LEVEL, kLoops);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

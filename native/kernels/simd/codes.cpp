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
struct Weights {
  __m512i v;
  void load(const int16_t* w) { v = _mm512_loadu_si512(w); }
  void load(const int8_t* w) { v = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w))); }
};
struct Sum {  // 16 channels
  __m512i v;
  void clear() { v = _mm512_setzero_si512(); }
  void add(int32_t pair, const Weights& w) {
    v = _mm512_add_epi32(v, _mm512_madd_epi16(_mm512_set1_epi32(pair), w.v));
  }
  void store(int32_t* to) const { _mm512_storeu_si512(to, v); }
};
#elif defined(__AVX2__)
constexpr int64_t kPixels = 6;
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
struct Sum {
  __m256i a, b;
  void clear() { a = b = _mm256_setzero_si256(); }
  void add(int32_t pair, const Weights& w) {
    const __m256i x = _mm256_set1_epi32(pair);
    a = _mm256_add_epi32(a, _mm256_madd_epi16(x, w.a));
    b = _mm256_add_epi32(b, _mm256_madd_epi16(x, w.b));
  }
  void store(int32_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), b);
  }
};
#else
constexpr int64_t kPixels = 4;
struct Weights {
  int16_t v[2 * kBlock];
  template <class W> void load(const W* w) { for (int64_t c = 0; c < 2 * kBlock; ++c) v[c] = w[c]; }
};
struct Sum {
  int32_t v[kBlock];
  void clear() { for (int32_t& x : v) x = 0; }
  void add(int32_t pair, const Weights& w) {
    int16_t x[2];
    __builtin_memcpy(x, &pair, sizeof x);
    for (int64_t c = 0; c < kBlock; ++c) v[c] += x[0] * w.v[2 * c] + x[1] * w.v[2 * c + 1];
  }
  void store(int32_t* to) const { for (int64_t c = 0; c < kBlock; ++c) to[c] = v[c]; }
};
#endif

template <class W, int R>
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
        s[r].add(pair, of);
      }
    }
  }
  for (int r = 0; r < R; ++r) s[r].store(sums + r * kBlock);
}

template <class W, int R = 1>
void tile_by(const int16_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs, const W* w,
             int32_t* sums) {
  if (rows == R) return tile_of<W, R>(at, taps, ntaps, pairs, w, sums);
  if constexpr (R < kPixels) tile_by<W, R + 1>(at, rows, taps, ntaps, pairs, w, sums);
}
void tile(const int16_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs,
          const void* weights, bool wide, int32_t* sums) {
  if (wide) tile_by(at, rows, taps, ntaps, pairs, static_cast<const int16_t*>(weights), sums);
  else tile_by(at, rows, taps, ntaps, pairs, static_cast<const int8_t*>(weights), sums);
}

#ifdef __AVX512BW__
#pragma GCC push_options
#pragma GCC target("avx512vnni")
// Weights [pair][16][2] of two pairs as [16][4]: words 0, 16, 1, 17, ...
struct Quads {
  __m512i order;
  Quads() {
    alignas(64) int16_t places[32];
    for (int16_t k = 0; k < 16; ++k) places[2 * k] = k, places[2 * k + 1] = int16_t(16 + k);
    order = _mm512_load_si512(places);
  }
  __m512i of(const int8_t* w) const { return _mm512_permutexvar_epi16(order, _mm512_loadu_si512(w)); }
  __m512i of_pair(const int8_t* w) const {
    return _mm512_permutexvar_epi16(order, _mm512_maskz_loadu_epi32(0xff, w));
  }
};
template <int R, int B>
inline __attribute__((always_inline)) void add_quads(__m512i (&s)[R][B], const uint8_t* const (&x)[R], int64_t i,
                                                     const __m512i (&v)[B]) {
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    int32_t quad;
    __builtin_memcpy(&quad, x[r] + i, sizeof quad);
    const __m512i all = _mm512_set1_epi32(quad);
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) s[r][b] = _mm512_dpbusd_epi32(s[r][b], all, v[b]);
  }
}
template <int R, int B>
void bytes_of(const uint8_t* const* at, const int64_t* taps, int64_t ntaps, int64_t pairs, const int8_t* w,
              int64_t apart, const int32_t* start, int32_t* sums) {
  const Quads quads;
  __m512i s[R][B], v[B];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) s[r][b] = _mm512_loadu_si512(start + b * kBlock);
  for (int64_t t = 0; t < ntaps; ++t) {
    const uint8_t* x[R];
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) x[r] = at[r] + taps[t];
    int64_t i = 0;
    for (; i + 2 <= pairs; i += 2, w += 4 * kBlock) {
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) v[b] = quads.of(w + b * apart);
      add_quads(s, x, 2 * i, v);
    }
    if (i < pairs) {
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) v[b] = quads.of_pair(w + b * apart);
      add_quads(s, x, 2 * i, v);
      w += 2 * kBlock;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) _mm512_storeu_si512(sums + (r * B + b) * kBlock, s[r][b]);
}
#pragma GCC pop_options
template <int R = 1>
void tile_bytes(const uint8_t* const* at, int64_t rows, const int64_t* taps, int64_t ntaps, int64_t pairs,
                const int8_t* w, int64_t apart, int64_t blocks, const int32_t* start, int32_t* sums) {
  if (rows == R) {
    if (blocks == 1) bytes_of<R, 1>(at, taps, ntaps, pairs, w, apart, start, sums);
    else bytes_of<R, 2>(at, taps, ntaps, pairs, w, apart, start, sums);
  } else if constexpr (R < kPixels) {
    tile_bytes<R + 1>(at, rows, taps, ntaps, pairs, w, apart, blocks, start, sums);
  }
}
#endif

#if defined(__AVX512BW__) && defined(__AVX512F__)
// Two blocks of a depthwise kernel at once; the sums come in fours, of channels 0, 8, 16, 24 and of 4, 12, 20, 28 on.
void two_blocks(const int16_t* at, const int64_t* taps, int64_t ntaps, const int16_t* w, int32_t* sums) {
  const int64_t size = (ntaps + 1) / 2 * 2 * kBlock;
  auto both = [size](const int16_t* p) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
                              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + size)), 1);
  };
  __m512i low = _mm512_setzero_si512(), high = low;
  for (int64_t t = 0; t < ntaps; t += 2, w += 2 * kBlock) {
    const __m512i a = _mm512_loadu_si512(at + taps[t]),
                  b = t + 1 < ntaps ? _mm512_loadu_si512(at + taps[t + 1]) : _mm512_setzero_si512();
    low = _mm512_add_epi32(low, _mm512_madd_epi16(_mm512_unpacklo_epi16(a, b), both(w)));
    high = _mm512_add_epi32(high, _mm512_madd_epi16(_mm512_unpackhi_epi16(a, b), both(w + kBlock)));
  }
  const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  _mm512_storeu_si512(sums, _mm512_permutex2var_epi64(low, first, high));
  _mm512_storeu_si512(sums + kBlock, _mm512_permutex2var_epi64(low, second, high));
}
#endif
void depthwise(const int16_t* at, const int64_t* taps, int64_t ntaps, const int16_t* w, int64_t channels,
               int32_t* sums) {
  int64_t c = 0;
#if defined(__AVX512BW__) && defined(__AVX512F__)
  for (; c + 2 * kBlock <= channels; c += 2 * kBlock, w += (ntaps + 1) / 2 * 4 * kBlock)
    two_blocks(at + c, taps, ntaps, w, sums + c);
#endif
  for (; c < channels; c += kBlock) {
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

#if defined(__AVX512BW__) && defined(__AVX512VL__)
// Columns of 16 sums: what belongs to a channel stays in registers.
template <bool added>
void finish_columns(const Requantized& how, const int32_t* sums, int64_t rows, int64_t apart, int64_t n, int64_t first,
                    int64_t at, int64_t row, uint8_t* to) {
  const __m512 least = _mm512_set1_ps(float(how.low - how.zero)), most = _mm512_set1_ps(float(255 - how.zero)),
               step = _mm512_set1_ps(how.added_factor);
  const __m512i zero = _mm512_set1_epi32(how.zero), added_zero = _mm512_set1_epi32(how.added_zero);
  for (int64_t j = 0; j < n; j += 16) {
    const __mmask16 here = n - j < 16 ? __mmask16((1u << (n - j)) - 1) : __mmask16(0xffff);
    const __m512 bias = _mm512_maskz_loadu_ps(here, how.bias + first + j),
                 factors = _mm512_maskz_loadu_ps(here, how.factors + first + j);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t place = at + r * row + j;
      __m512 x = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums + r * apart + j));
      x = _mm512_mul_ps(_mm512_add_ps(x, bias), factors);
      if constexpr (added) {
        const __m512i q = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(here, how.added + place));
        x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(q, added_zero)), step, x);
      }
      x = _mm512_min_ps(_mm512_max_ps(x, least), most);
      const __m128i codes = _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(x), zero));
      if (here == 0xffff) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + place), codes);
      else _mm_mask_storeu_epi8(to + place, here, codes);
    }
  }
}
void finish(const Requantized& how, const int32_t* sums, int64_t rows, int64_t apart, int64_t n, int64_t first,
            int64_t at, int64_t row, uint8_t* to) {
  if (how.added) finish_columns<true>(how, sums, rows, apart, n, first, at, row, to);
  else finish_columns<false>(how, sums, rows, apart, n, first, at, row, to);
}
#else
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
#endif

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

CodesLoops loops() {
  CodesLoops found{kPixels, widen, tile, nullptr, depthwise, finish, filter_input, filter_weights, filter_output};
#ifdef __AVX512BW__
  if (__builtin_cpu_supports("avx512vnni")) found.tile_bytes = tile_bytes<>;
#endif
  return found;
}
const CodesRegistration registration(FLAMBEAU_LEVEL, loops());

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

// Vectors of floats, as wide as the instruction set has, for loops over rows: whole ones and parts, sums of lanes, the
// exponential.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace flambeau::FLAMBEAU_SIMD {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#else
constexpr int kBytes = 32;
#endif
constexpr int L = kBytes / 4;
constexpr int64_t kBlock = 4096;  // float sums restart here
typedef float Floats __attribute__((vector_size(kBytes)));
typedef int32_t Ints __attribute__((vector_size(kBytes)));

inline Floats load(const float* p) {
  Floats v;
  std::memcpy(&v, p, kBytes);
  return v;
}
inline void store(float* p, Floats v) { std::memcpy(p, &v, kBytes); }
// The first n lanes from p, the others from `padding`; a short row has no other loads, so these must be quick.
inline Floats load_part(const float* p, int64_t n, Floats padding) {
  if (n >= L) return load(p);
#if defined(__AVX512F__)
  return Floats(_mm512_mask_loadu_ps(__m512(padding), __mmask16((1u << n) - 1), p));
#elif defined(__AVX2__)
  const Ints lane = {0, 1, 2, 3, 4, 5, 6, 7}, inside = lane < int32_t(n);
  return inside ? Floats(_mm256_maskload_ps(p, __m256i(inside))) : padding;
#else
  std::memcpy(&padding, p, size_t(n) * 4);
  return padding;
#endif
}
inline void store_part(float* p, Floats v, int64_t n) {
  if (n >= L) return store(p, v);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), __m512(v));
#elif defined(__AVX2__)
  const Ints lane = {0, 1, 2, 3, 4, 5, 6, 7};
  _mm256_maskstore_ps(p, __m256i(lane < int32_t(n)), __m256(v));
#else
  std::memcpy(p, &v, size_t(n) * 4);
#endif
}

// f(i, n): the vector of so many lanes from i on, of which n numbers are the row's: all of them, which is known when
// this is compiled, but for the last.
template <int lanes = L, class F>
inline void along(int64_t width, F&& f) {
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) f(i, std::integral_constant<int64_t, lanes>());
  if (i < width) f(i, width - i);
}

// The two halves of a vector, without a detour through memory where the instruction set has words for it.
template <class V>
struct Halves {
  typedef std::decay_t<decltype(V{}[0])> Half __attribute__((vector_size(sizeof(V) / 2)));
  Half low, high;
  explicit Halves(V v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      low = Half(_mm512_castps512_ps256(__m512(v)));
      high = Half(_mm512_extractf32x8_ps(__m512(v), 1));
      return;
    }
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      low = Half(_mm256_castps256_ps128(__m256(v)));
      high = Half(_mm256_extractf128_ps(__m256(v), 1));
      return;
    }
#endif
    std::memcpy(&low, &v, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof low);
  }
};
template <class V, class Join>  // lanes joined pairwise: the first half with the second, until one is left
inline auto fold_lanes(V v, Join join) {
  if constexpr (sizeof(V) == sizeof(v[0])) {
    return v[0];
  } else {
    const Halves<V> halves(v);
    return fold_lanes(join(halves.low, halves.high), join);
  }
}
typedef double Doubles __attribute__((vector_size(kBytes)));
inline Doubles as_doubles(Halves<Floats>::Half v) {
#if defined(__AVX512F__)
  return Doubles(_mm512_cvtps_pd(__m256(v)));
#elif defined(__AVX2__)
  return Doubles(_mm256_cvtps_pd(__m128(v)));  // of __builtin_convertvector GCC makes five instructions
#else
  return __builtin_convertvector(v, Doubles);
#endif
}
inline double add_lanes(Floats v) {
  const Halves<Floats> halves(v);
  return fold_lanes(as_doubles(halves.low) + as_doubles(halves.high), [](auto a, auto b) { return a + b; });
}

// e^x for x <= 0 (larger x up to 88 as well): 2^k e^r, |r| <= ln 2 / 2, Taylor to the seventh power. Results below the
// smallest normal number are 0.
inline Floats exp(Floats x) {
  constexpr float magic = 12582912.0f, lowest = -87.33654f;
  Floats clamped = x < lowest ? Floats{} + lowest : x;
  Floats shifted = clamped * 1.44269504f + magic;
  Floats k = shifted - magic;
  Floats r = (clamped - k * 0.693359375f) + k * 2.12194440e-4f;
  Floats p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  Ints bits, scale;
  std::memcpy(&bits, &shifted, kBytes);
  std::memcpy(&scale, &p, kBytes);
  scale += (bits - 0x4b400000) << 23;  // the exponent of p, which lies in [0.7, 1.42]
  Floats result;
  std::memcpy(&result, &scale, kBytes);
  result = x < lowest ? Floats{} : result;
  return x == x ? result : x;
}

}  // namespace flambeau::FLAMBEAU_SIMD

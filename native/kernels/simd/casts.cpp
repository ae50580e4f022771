// Conversions of halves and of 64-bit integers, whose instructions the baseline lacks or has for half as many numbers.
#include "../simd_casts.h"

#include <algorithm>
#include <bit>

#include "halves.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

// In whole vectors, the last one through memory of its own.
template <auto vector, class To, class From> void in_vectors(To* to, const From* from, int64_t n) {
#ifdef __F16C__
  constexpr int width = Float16::width;
  int64_t i = 0;
  for (; i + width <= n; i += width) vector(to + i, from + i);
  if (i == n) return;
  From last[width] = {};
  To found[width];
  std::copy_n(from + i, n - i, last);
  vector(found, last);
  std::copy_n(found, n - i, to + i);
#else
  for (int64_t i = 0; i < n; ++i) to[i] = To(from[i]);
#endif
}
#ifdef __F16C__
constexpr auto widen = [](float* to, const float16* from) __attribute__((always_inline)) {
  const auto v = Float16::load(from);
  __builtin_memcpy(to, &v, sizeof v);
};
constexpr auto narrow = [](float16* to, const float* from) __attribute__((always_inline)) {
  decltype(Float16::load(from)) v;
  __builtin_memcpy(&v, from, sizeof v);
  Float16::store(to, v);
};
#else
constexpr auto widen = [](float*, const float16*) {};
constexpr auto narrow = [](float16*, const float*) {};
#endif

void float_of_bfloat(float* to, const bfloat16* from, int64_t n) {
  const uint16_t* s = reinterpret_cast<const uint16_t*>(from);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = std::bit_cast<float>(uint32_t(s[i]) << 16);
}
void bfloat_of_float(bfloat16* to, const float* from, int64_t n) {
  uint16_t* d = reinterpret_cast<uint16_t*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = std::bit_cast<uint32_t>(from[i]), rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    d[i] = uint16_t((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
}
template <class To> void of_long(To* __restrict to, const int64_t* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = To(from[i]);
}

constexpr SimdCasts kCasts{in_vectors<widen, float, float16>, in_vectors<narrow, float16, float>, float_of_bfloat,
                           bfloat_of_float, of_long<float>, of_long<double>};
const bool registered = [] {
  simd_cast_levels[FLAMBEAU_LEVEL] = &kCasts;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

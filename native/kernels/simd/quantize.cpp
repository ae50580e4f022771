// Codes of quantized numbers, and what they stand for: round, clamp, and back.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

template <class T> T nearest(T x) {
  if constexpr (sizeof(T) == 4) return __builtin_nearbyintf(x);
  else return __builtin_nearbyint(x);
}
template <class T> T fused(T a, T b, T c) {
  if constexpr (sizeof(T) == 4) return __builtin_fmaf(a, b, c);
  else return __builtin_fma(a, b, c);
}
template <class T> T within(T x, T low, T high) { return x < low ? low : x > high ? high : x; }

const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      // the code of x is rounded once, zero point included
      ternary_n<[]<class T>(T x, T scale, T zero, T low, T high) {
        return within(nearest(fused(x, T(1) / scale, zero)), low, high);
      }, 2, float, double>("_quantized_codes"),
      // what training sees of it rounds before a whole zero point is added; a fraction of one is rounded with x
      ternary_n<[]<class T>(T x, T scale, T zero, T low, T high, T) {
        const T whole = __builtin_floor(zero);
        return (within(T(nearest(T(T(x * (T(1) / scale)) + (zero - whole))) + whole), low, high) - zero) * scale;
      }, 3, float, double>("_fake_quantize"),
  });
});

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

// Comparisons, tests of floating-point class and selection, for the floating types.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary<[](auto a, auto b) { return a == b; }, float, double>("eq"),
      binary<[](auto a, auto b) { return a != b; }, float, double>("ne"),
      binary<[](auto a, auto b) { return a < b; }, float, double>("lt"),
      binary<[](auto a, auto b) { return a <= b; }, float, double>("le"),
      binary<[](auto a, auto b) { return b < a; }, float, double>("gt"),
      binary<[](auto a, auto b) { return b <= a; }, float, double>("ge"),
      unary<[](auto a) { return a != a; }, float, double>("isnan"),
      unary<[]<class T>(T a) { return abs_(a) == inf<T>; }, float, double>("isinf"),
      unary<[]<class T>(T a) { return abs_(a) < inf<T>; }, float, double>("isfinite"),
      unary<[]<class T>(T a) { return a == inf<T>; }, float, double>("isposinf"),
      unary<[]<class T>(T a) { return a == -inf<T>; }, float, double>("isneginf"),
      unary<[]<class T>(T a) { return (bits(a) >> (8 * sizeof(T) - 1) & 1) != 0; }, float, double>("signbit"),
      any_stride(from_loops<float, double>("where", 3, {where_loop<uint32_t>, where_loop<uint64_t>}), 1),
      any_stride(from_loops<float, double>("masked_fill", 3, {masked_fill_loop<uint32_t>, masked_fill_loop<uint64_t>}),
                 2),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

// Comparisons, tests of floating-point class and selection, for the floating types.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

template <class T> void where_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  run3<T, bool, T, T>(p, n, [](bool c, T a, T b) { return c ? a : b; });
}
template <class T> void masked_fill_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  run3<T, T, bool, T>(p, n, [](T a, bool mask, T value) { return mask ? value : a; });
}

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
      unary<[]<class T>(T a) { return std::signbit(a); }, float, double>("signbit"),
      with_masks(from_loops<float, double>("where", 3, {where_loop<float>, where_loop<double>}), 1),
      with_masks(from_loops<float, double>("masked_fill", 3, {masked_fill_loop<float>, masked_fill_loop<double>}), 2),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

// Trigonometric and hyperbolic functions of the floating types. Float goes through the double text of the inverse
// hyperbolic ones: the conversions cost less than a second set of polynomials is worth.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

// Reduction by three parts of pi/2 is exact enough up to `limit`; a block with a larger argument takes the C library's.
template <class T, class Fast, class Slow>
inline void guarded(char* const* p, int64_t n, T limit, Fast fast, Slow slow) {
  constexpr int64_t kBlock = 256;
  T* o = reinterpret_cast<T*>(p[0]);
  const T* a = reinterpret_cast<const T*>(p[1]);
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    if (all_of<T>(m, [&](int64_t i) { return abs_(a[at + i]) <= limit; })) {
#pragma GCC ivdep
      for (int64_t i = 0; i < m; ++i) o[at + i] = fast(a[at + i]);
    } else {
      for (int64_t i = 0; i < m; ++i) o[at + i] = slow(a[at + i]);
    }
  }
}
template <class T> void sin_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  guarded<T>(p, n, trig_limit<T>, [](T x) { return sin_(x); }, [](T x) { return std::sin(x); });
}
template <class T> void cos_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  guarded<T>(p, n, trig_limit<T>, [](T x) { return cos_(x); }, [](T x) { return std::cos(x); });
}
template <class T> void tan_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  guarded<T>(p, n, trig_limit<T>, [](T x) { return tan_(x); }, [](T x) { return std::tan(x); });
}
template <class T> inline T sinc_slow(T x) {
  T y = x * T(3.14159265358979323846);
  return x == 0 ? T(1) : std::sin(y) / y;
}
template <class T> void sinc_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  auto fast = [](T x) {
    T y = x * T(3.14159265358979323846);
    return x == 0 ? T(1) : sin_(y) / y;
  };
  guarded<T>(p, n, trig_limit<T> / 4, fast, [](T x) { return sinc_slow(x); });
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      from_loops<float, double>("sin", 1, {sin_loop<float>, sin_loop<double>}, 2),
      from_loops<float, double>("cos", 1, {cos_loop<float>, cos_loop<double>}, 2),
      from_loops<float, double>("tan", 1, {tan_loop<float>, tan_loop<double>}, 4),
      from_loops<float, double>("sinc", 1, {sinc_loop<float>, sinc_loop<double>}, 2),
      unary<[]<class T>(T a) { return asin_(a); }, float, double>("asin", 4),
      unary<[]<class T>(T a) { return acos_(a); }, float, double>("acos", 4),
      unary<[]<class T>(T a) { return atan_(a); }, float, double>("atan", 4),
      binary<[]<class T>(T a, T b) { return atan2_(a, b); }, float, double>("atan2", 4),
      unary<[]<class T>(T a) { return sinh_(a); }, float, double>("sinh", 4),
      unary<[]<class T>(T a) { return cosh_(a); }, float, double>("cosh", 4),
      unary<[]<class T>(T a) { return tanh_(a); }, float, double>("tanh", 2),
      unary<[]<class T>(T a) { return T(asinh_(double(a))); }, float, double>("asinh", 4),
      unary<[]<class T>(T a) { return T(acosh_(double(a))); }, float, double>("acosh", 4),
      unary<[]<class T>(T a) { return atanh_(a); }, float, double>("atanh", 4),
      unary<[]<class T>(T a) { return a != a ? a : a < 0 ? T(kPi) : T(0); }, float, double>("angle"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

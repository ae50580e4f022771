// Floating-point arithmetic: sums, products, quotients, extrema, rounding.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

// a - b floor(a / b) with the divisor's sign, exact where fmod is
template <class T> T remainder_(T a, T b) {
  T m = std::fmod(a, b);
  return m != 0 && ((b < 0) != (m < 0)) ? m + b : m;
}
// Python's floor division: through the remainder, so that a == floor_divide(a, b) * b + remainder(a, b)
template <class T> T floor_divide_(T a, T b) {
  if (b == 0) return a / b;
  T m = std::fmod(a, b), q = (a - m) / b;
  if (m != 0 && ((b < 0) != (m < 0))) q -= T(1);
  if (q == 0) return std::copysign(T(0), a / b);
  T f = std::floor(q);
  return q - f > T(0.5) ? f + T(1) : f;
}
template <class T> T power_of_ten(T decimals) { return T(std::pow(10.0, double(decimals))); }

template <class T> void round_loop(char* const* p, const int64_t*, int64_t n, const Scalar* s) {
  T decimals = number<T>(s[0]);
  if (decimals == 0) return run1<T, T>(p, n, [](T a) { return rint_(a); });
  T ten = power_of_ten(abs_(decimals));
  if (decimals > 0) run1<T, T>(p, n, [ten](T a) { return rint_(a * ten) / ten; });
  else run1<T, T>(p, n, [ten](T a) { return rint_(a / ten) * ten; });
}
template <class T> void nan_to_num_loop(char* const* p, const int64_t*, int64_t n, const Scalar* s) {
  T no = absent(s[0]) ? T(0) : number<T>(s[0]);
  T high = absent(s[1]) ? std::numeric_limits<T>::max() : number<T>(s[1]);
  T low = absent(s[2]) ? std::numeric_limits<T>::lowest() : number<T>(s[2]);
  run1<T, T>(p, n, [=](T a) {
    T v = a == inf<T> ? high : a;
    v = a == -inf<T> ? low : v;
    return a != a ? no : v;
  });
}
// The rounding mode arrives as its first letter.
template <class T> void div_loop(char* const* p, const int64_t* stride, int64_t n, const Scalar* s) {
  if (absent(s[0])) run2<T, T, T>(p, stride, n, [](T a, T b) { return a / b; });
  else if (s[0].i == 't') run2<T, T, T>(p, stride, n, [](T a, T b) { return std::trunc(a / b); });
  else run2<T, T, T>(p, stride, n, [](T a, T b) { return floor_divide_(a, b); });
}
// An absent bound has a null pointer.
template <class T> void clamp_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  char* q[3] = {p[0], p[1], p[2] ? p[2] : p[3]};
  const int64_t stride[3] = {s[0], s[1], 1};
  if (p[2] && p[3]) run3<T, T, T, T>(p, n, [](T a, T low, T high) { return min_nan(max_nan(a, low), high); });
  else if (p[2]) run2<T, T, T>(q, stride, n, [](T a, T low) { return max_nan(a, low); });
  else run2<T, T, T>(q, stride, n, [](T a, T high) { return min_nan(a, high); });
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary_n<[](auto a, auto b, auto alpha) { return a + alpha * b; }, 1, float, double>("add"),
      binary_n<[](auto a, auto b, auto alpha) { return a - alpha * b; }, 1, float, double>("sub"),
      binary_n<[](auto a, auto b, auto alpha) { return b - alpha * a; }, 1, float, double>("rsub"),
      binary<[](auto a, auto b) { return a * b; }, float, double>("mul"),
      binary<[](auto a, auto b) { return a * b; }, float, double>("_mul_conj"),
      binary<[](auto a, auto b) { return a / b; }, float, double>("_div_conj"),
      unary<[]<class T>(T) { return T(0); }, float, double>("_zero"),
      from_loops<float, double>("div", 2, {div_loop<float>, div_loop<double>}),
      binary<[]<class T>(T a, T b) { return floor_divide_(a, b); }, float, double>("floor_divide", 8),
      binary<[]<class T>(T a, T b) { return remainder_(a, b); }, float, double>("remainder", 8),
      binary<[]<class T>(T a, T b) { return std::fmod(a, b); }, float, double>("fmod", 8),
      binary<[]<class T>(T a, T b) { return max_nan(a, b); }, float, double>("maximum"),
      binary<[]<class T>(T a, T b) { return min_nan(a, b); }, float, double>("minimum"),
      binary<[]<class T>(T a, T b) { return a != a ? b : b != b ? a : b < a ? a : b; }, float, double>("fmax"),
      binary<[]<class T>(T a, T b) { return a != a ? b : b != b ? a : a < b ? a : b; }, float, double>("fmin"),
      unary<[](auto a) { return -a; }, float, double>("neg"),
      unary<[]<class T>(T a) { return abs_(a); }, float, double>("abs"),
      unary<[](auto a) { return a * a; }, float, double>("square"),
      unary<[]<class T>(T a) { return T(1) / a; }, float, double>("reciprocal"),
      unary<[](auto a) { return std::sqrt(a); }, float, double>("sqrt"),
      unary<[]<class T>(T a) { return T(1) / std::sqrt(a); }, float, double>("rsqrt"),
      unary<[]<class T>(T a) { return T(0 < a) - T(a < 0); }, float, double>("sign"),
      unary<[]<class T>(T a) { return T(0 < a) - T(a < 0); }, float, double>("sgn"),
      unary<[](auto a) { return std::floor(a); }, float, double>("floor"),
      unary<[](auto a) { return std::ceil(a); }, float, double>("ceil"),
      unary<[](auto a) { return std::trunc(a); }, float, double>("trunc"),
      unary<[](auto a) { return a - std::trunc(a); }, float, double>("frac"),
      from_loops<float, double>("round", 1, {round_loop<float>, round_loop<double>}),
      from_loops<float, double>("nan_to_num", 1, {nan_to_num_loop<float>, nan_to_num_loop<double>}),
      from_loops<float, double>("clamp", 3, {clamp_loop<float>, clamp_loop<double>}),
      unary_n<[]<class T>(T a, T low, T high) { return a < low ? low : high < a ? high : a; }, 2, float, double>("hardtanh"),
      ternary_n<[](auto a, auto b, auto c, auto value) { return a + value * b * c; }, 1, float, double>("addcmul"),
      ternary_n<[](auto a, auto b, auto c, auto value) { return a + value * b / c; }, 1, float, double>("addcdiv"),
      ternary<[]<class T>(T a, T b, T w) { return abs_(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w); }, float,
              double>("lerp"),
      binary<[]<class T>(T a, T b) { return std::copysign(a, b); }, float, double>("copysign"),
      binary<[]<class T>(T a, T b) { return a == 0 ? b : T(0 < a); }, float, double>("heaviside"),
      unary<[]<class T>(T a) { return a * T(0.017453292519943295769); }, float, double>("deg2rad"),
      unary<[]<class T>(T a) { return a * T(57.295779513082320877); }, float, double>("rad2deg"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

// Floating-point arithmetic: sums, products, quotients, extrema, rounding.
#include <cstring>

#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

// The exact remainder of |a| / |b| by one division, while the quotient is a whole number that the type of the division
// holds: a quotient that was rounded up can be one too large, which the sign of the remainder tells. For float that
// type is float, then double, for double itself. Wider quotients go to the C library.
template <class W, class T> inline bool is_near(T a, T b) {  // false for infinities and NaN too
  W x = abs_(W(a)), y = abs_(W(b));
  return (x < Fp<W>::divides * y) & (y < inf<W>);
}
template <class W> inline W fmod_near(W a, W b) {
  W x = abs_(a), y = abs_(b), q = std::trunc(x / y), m = fma_(-q, y, x);
  m = m < 0 ? m + y : m;
  return std::copysign(m, a);
}
double (*const volatile library_fmod)(double, double) = std::fmod;  // through memory: GCC's own expansion is the x87's
template <class T> struct Fmod {
  template <class W> static T near(T a, T b) { return T(fmod_near(W(a), W(b))); }
  static T far(T a, T b) { return T(library_fmod(a, b)); }
};
// with the divisor's sign
template <class T> inline T floor_mod(T m, T b) { return m != 0 && ((b < 0) != (m < 0)) ? m + b : m; }
template <class T> struct Remainder {
  template <class W> static T near(T a, T b) { return floor_mod(Fmod<T>::template near<W>(a, b), b); }
  static T far(T a, T b) { return floor_mod(Fmod<T>::far(a, b), b); }
};
// Python's floor division: through the remainder, so that a == floor_divide(a, b) * b + remainder(a, b)
template <class T> inline T floor_quotient(T a, T b, T m) {
  T q = (a - m) / b;
  q = m != 0 && ((b < 0) != (m < 0)) ? q - T(1) : q;
  T f = std::floor(q);
  f = q - f > T(0.5) ? f + T(1) : f;
  f = q == 0 ? std::copysign(T(0), a / b) : f;
  return b == 0 ? a / b : f;
}
template <class T> struct FloorDivide {
  template <class W> static T near(T a, T b) { return floor_quotient(a, b, Fmod<T>::template near<W>(a, b)); }
  static T far(T a, T b) { return floor_quotient(a, b, Fmod<T>::far(a, b)); }
};
template <class W, class T> inline bool all_near(const T* a, bool many, const T* b, bool divisors, int64_t n) {
  if (many && divisors) return all_of<W>(n, [&](int64_t i) { return is_near<W>(a[i], b[i]); });
  return all_of<W>(n, [&](int64_t i) { return is_near<W>(a[many ? i : 0], b[divisors ? i : 0]); });
}
template <template <class> class F, class T>
void division_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  constexpr int64_t kBlock = 256;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    char* q[3] = {p[0] + at * int64_t(sizeof(T)), p[1] + at * s[1], p[2] + at * s[2]};
    const T *a = reinterpret_cast<const T*>(q[1]), *b = reinterpret_cast<const T*>(q[2]);
    if (all_near<T>(a, s[1], b, s[2], m))
      run2<T, T, T>(q, s, m, [](T u, T v) { return F<T>::template near<T>(u, v); });
    else if (sizeof(T) < 8 && all_near<double>(a, s[1], b, s[2], m))
      run2<T, T, T>(q, s, m, [](T u, T v) { return F<T>::template near<double>(u, v); });
    else run2<T, T, T>(q, s, m, [](T u, T v) { return F<T>::far(u, v); });
  }
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
  else division_loop<FloorDivide, T>(p, stride, n, s);
}
// Quotients of bfloat16 that are rounded to whole numbers: in float32, a block at a time; `number` for a null pointer.
void rounded_div_bfloat16(char* const* p, const int64_t* s, int64_t n, const Scalar* scalars, float number) {
  constexpr int64_t kBlock = 256;
  float side[3][kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    for (int k = 1; k < 3; ++k) {
      const uint16_t* from = reinterpret_cast<const uint16_t*>(p[k] ? p[k] + at * s[k] : nullptr);
      for (int64_t i = 0; i < m; ++i) side[k][i] = from ? widen(from[s[k] ? i : 0]) : number;
    }
    char* const q[] = {reinterpret_cast<char*>(side[0]), reinterpret_cast<char*>(side[1]),
                       reinterpret_cast<char*>(side[2])};
    const int64_t strides[] = {4, 4, 4};
    div_loop<float>(q, strides, m, scalars);
    uint16_t* to = reinterpret_cast<uint16_t*>(p[0]) + at;
    for (int64_t i = 0; i < m; ++i) to[i] = narrow(side[0][i]);
  }
}
void div_bfloat16(char* const* p, const int64_t* s, int64_t n, const Scalar* scalars) {
  if (!absent(scalars[0])) return rounded_div_bfloat16(p, s, n, scalars, 0);
  run2<uint16_t, uint16_t, uint16_t>(p, s, n, [](uint16_t a, uint16_t b) { return narrow(widen(a) / widen(b)); });
}
void div_bfloat16_number(char* const* p, const int64_t* s, int64_t n, const Scalar* scalars) {
  const float y = number<float>(scalars[kNumberPlace]);
  if (!absent(scalars[0])) return rounded_div_bfloat16(p, s, n, scalars, y);
  if (p[1]) return run1<uint16_t, uint16_t>(p, n, [y](uint16_t a) { return narrow(widen(a) / y); });
  char* const q[2] = {p[0], p[2]};
  run1<uint16_t, uint16_t>(q, n, [y](uint16_t b) { return narrow(y / widen(b)); });
}
// One of two halves as it lies, chosen in float32; a NaN goes first.
template <bool kLarger> void extreme_bfloat16(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  run2<uint16_t, uint16_t, uint16_t>(p, s, n, [](uint16_t a, uint16_t b) {
    const float x = widen(a), y = widen(b);
    return uint16_t((x != x) | (kLarger ? y < x : x < y) ? a : b);
  });
}
template <class T> void clamp_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  auto number = [](const char* q) { return *reinterpret_cast<const T*>(q); };
  bool numbers = s[1] && !s[2] && !s[3], low = p[2], high = p[3];
  if (numbers && (!low || number(p[2]) == number(p[2])) && (!high || number(p[3]) == number(p[3]))) {
    // bounds that are numbers, not NaN: one comparison keeps a NaN element
    const T from = low ? number(p[2]) : -inf<T>, to = high ? number(p[3]) : inf<T>;
    return run1<T, T>(p, n, [=](T a) {
      T v = a < from ? from : a;
      return to < v ? to : v;
    });
  }
  clamp_strided<T>(
      p, s, n, [](T a, T bound) { return max_nan(a, bound); }, [](T a, T bound) { return min_nan(a, bound); });
}

template <int64_t item> void zeros(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  std::memset(p[0], 0, size_t(n * item));
}

// long because: a table
static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary_n<[](auto a, auto b, auto alpha) { return a + alpha * b; }, 1, float, double>("add"),
      binary_n<[](auto a, auto b, auto alpha) { return a - alpha * b; }, 1, float, double>("sub"),
      binary_n<[](auto a, auto b, auto alpha) { return b - alpha * a; }, 1, float, double>("rsub"),
      binary<[](auto a, auto b) { return a * b; }, float, double>("mul"),
      binary<[](auto a, auto b) { return a * b; }, float, double>("_mul_conj"),
      unary<[](auto a) { return a; }, float, double>("_conj_physical"),
      binary<[](auto a, auto b) { return a / b; }, float, double>("_div_conj"),
      from_loops<float, double, float16, bfloat16>("_zero", 1, {zeros<4>, zeros<8>, zeros<2>, zeros<2>}),
      with_number<bfloat16>(
          from_loops<float, double, bfloat16>("div", 2, {div_loop<float>, div_loop<double>, div_bfloat16}),
          div_bfloat16_number),
      from_loops<float, double>("floor_divide", 2,
                                {division_loop<FloorDivide, float>, division_loop<FloorDivide, double>}, 2),
      from_loops<float, double>("remainder", 2, {division_loop<Remainder, float>, division_loop<Remainder, double>}, 2),
      from_loops<float, double>("fmod", 2, {division_loop<Fmod, float>, division_loop<Fmod, double>}, 2),
      binary<[]<class T>(T a, T b) { return max_nan(a, b); }, float, double>("maximum"),
      binary<[]<class T>(T a, T b) { return min_nan(a, b); }, float, double>("minimum"),
      from_loops<bfloat16>("maximum", 2, {extreme_bfloat16<true>}),
      from_loops<bfloat16>("minimum", 2, {extreme_bfloat16<false>}),
      binary<[]<class T>(T a, T b) { return a != a   ? b
                                            : b != b ? a
                                            : b < a  ? a
                                                     : b; }, float, double>("fmax"),
      binary<[]<class T>(T a, T b) { return a != a   ? b
                                            : b != b ? a
                                            : a < b  ? a
                                                     : b; }, float, double>("fmin"),
      unary<[](auto a) { return -a; }, float, double>("neg"),
      unary<[]<class T>(T a) { return abs_(a); }, float, double>("abs"),
      unary<[](auto a) { return a * a; }, float, double, bfloat16>("square"),
      unary<[]<class T>(T a) { return T(1) / a; }, float, double, bfloat16>("reciprocal"),
      unary<[](auto a) { return std::sqrt(a); }, float, double, bfloat16>("sqrt"),
      unary<[]<class T>(T a) { return T(1) / std::sqrt(a); }, float, double, bfloat16>("rsqrt"),
      unary<[]<class T>(T a) { return T(0 < a) - T(a < 0); }, float, double>("sign"),
      unary<[]<class T>(T a) { return T(0 < a) - T(a < 0); }, float, double>("sgn"),
      unary<[](auto a) { return std::floor(a); }, float, double, bfloat16>("floor"),
      unary<[](auto a) { return std::ceil(a); }, float, double, bfloat16>("ceil"),
      unary<[](auto a) { return std::trunc(a); }, float, double, bfloat16>("trunc"),
      unary<[](auto a) { return a - std::trunc(a); }, float, double, bfloat16>("frac"),
      from_loops<float, double>("round", 1, {round_loop<float>, round_loop<double>}),
      from_loops<float, double>("nan_to_num", 1, {nan_to_num_loop<float>, nan_to_num_loop<double>}),
      any_stride(from_loops<float, double>("clamp", 3, {clamp_loop<float>, clamp_loop<double>})),
      unary_n<[]<class T>(T a, T low, T high) { return a < low    ? low
                                                       : high < a ? high
                                                                  : a; }, 2, float, double, bfloat16>(
          "hardtanh"),
      ternary_n<[](auto a, auto b, auto c, auto value) { return a + value * b * c; }, 1, float, double, bfloat16>(
          "addcmul"),
      ternary_n<[](auto a, auto b, auto c, auto value) { return a + value * b / c; }, 1, float, double, bfloat16>(
          "addcdiv"),
      ternary<[]<class T>(T a, T b, T w) { return abs_(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w); },
              float, double>("lerp"),
      binary<[]<class T>(T a, T b) { return std::copysign(a, b); }, float, double>("copysign"),
      binary<[]<class T>(T a, T b) { return a == 0 ? b : T(0 < a); }, float, double>("heaviside"),
      unary<[]<class T>(T a) { return a * T(0.017453292519943295769); }, float, double, bfloat16>("deg2rad"),
      unary<[]<class T>(T a) { return a * T(57.295779513082320877); }, float, double, bfloat16>("rad2deg"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

// Exponentials, logarithms and powers of the floating types.
#include "near.h"

namespace flambeau::FLAMBEAU_SIMD {

// x^y in double for float operands: log and exp to 32 bits are enough, and no float is subnormal there. The cases IEEE
// names are selected around exp(y log |x|).
inline float pow_(float x, float y) {
  double l = log_positive(abs_(double(x)));
  l = x == 0.f ? -1e300 : l;
  l = abs_(x) == inf<float> ? 1e300 : l;
  double t = double(y) * l;
  t = t > 200. ? 200. : t;
  t = t < -200. ? -200. : t;
  double value = exp_moderate(t);
  float half = y * 0.5f;
  bool whole = std::floor(y) == y, odd = whole & (std::floor(half) != half);
  float result = float(value);
  result = odd & ((bits(x) >> 31) != 0) ? -result : result;
  result = (x < 0) & !whole & (x > -inf<float>) ? nan<float> : result;
  result = (x == -1.f) & (abs_(y) == inf<float>) ? 1.f : result;
  result = (x != x) | (y != y) ? nan<float> : result;
  return (x == 1.f) | (y == 0.f) ? 1.f : result;
}

// each(f) where x^y is a few multiplications, a division or a square root; false: it is none of these.
template <class T, class Each> bool simple_power(T y, Each&& each) {
  if (y == T(2)) return each([](T x) { return x * x; }), true;
  if (y == T(3)) return each([](T x) { return x * x * x; }), true;
  if (y == T(1)) return each([](T x) { return x; }), true;
  if (y == T(0.5)) return each([](T x) { return std::sqrt(x); }), true;
  if (y == T(-0.5)) return each([](T x) { return T(1) / std::sqrt(x); }), true;
  if (y == T(-1)) return each([](T x) { return T(1) / x; }), true;
  if (y == T(-2)) return each([](T x) { return T(1) / (x * x); }), true;
  return false;
}

template <class T> void pow_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  if (s[2] || !s[1]) return run2<T, T, T>(p, s, n, [](T x, T y) __attribute__((always_inline)) { return pow_(x, y); });
  const T y = *reinterpret_cast<const T*>(p[2]);
  auto each = [&](auto f) { run1<T, T>(p, n, f); };
  if (!simple_power(y, each)) each([y](T x) { return pow_(x, y); });
}

void pow_bfloat16_of(char* const* p, int64_t n, float exponent) {
  auto each = [&](auto f) { run1<uint16_t, uint16_t>(p, n, [f](uint16_t x) { return narrow(f(widen(x))); }); };
  if (!simple_power(exponent, each)) each([exponent](float x) { return pow_(x, exponent); });
}
void pow_bfloat16(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  if (!s[2] && s[1]) return pow_bfloat16_of(p, n, widen(*reinterpret_cast<const uint16_t*>(p[2])));
  run2<uint16_t, uint16_t, uint16_t>(p, s, n, [](uint16_t x, uint16_t y) { return narrow(pow_(widen(x), widen(y))); });
}
void pow_bfloat16_number(char* const* p, const int64_t*, int64_t n, const Scalar* scalars) {
  const float exponent = number<float>(scalars[kNumberPlace]);
  char* const power[2] = {p[0], p[2]};
  if (!p[1]) return run1<uint16_t, uint16_t>(power, n, [=](uint16_t y) { return narrow(pow_(exponent, widen(y))); });
  pow_bfloat16_of(p, n, exponent);
}

template <class T> inline T logaddexp_(T a, T b) {
  T high = a < b ? b : a, d = abs_(a - b);
  T value = high + log1p_(exp_(-d));
  value = a == b ? a + T(0.693147180559945309417232) : value;  // also equal infinities
  return a != a || b != b ? nan<T> : value;
}
template <class T> inline T logaddexp2_(T a, T b) {
  T high = a < b ? b : a, d = abs_(a - b);
  T value = high + log1p_(exp2_(-d)) * T(1.442695040888963407359924681);
  value = a == b ? a + T(1) : value;
  return a != a || b != b ? nan<T> : value;
}
template <class T> inline T xlogy_(T x, T y) { return y != y ? y : x == 0 ? T(0) : x * log_(y); }
template <class T> inline T xlog1py_(T x, T y) { return y != y ? y : x == 0 ? T(0) : x * log1p_(y); }
inline float hypot_(float a, float b) {
  double s = std::sqrt(double(a) * a + double(b) * b);
  return abs_(a) == inf<float> || abs_(b) == inf<float> ? inf<float> : float(s);
}
inline double hypot_(double a, double b) {  // by powers of two, so that no square is beyond a double
  const double x = abs_(a), y = abs_(b), high = x < y ? y : x, low = x < y ? x : y;
  const double by = high > 0x1p500 ? 0x1p-600 : high < 0x1p-480 ? 0x1p600 : 1., back = 1 / by;
  const double h = high * by, l = low * by;
  const double value = std::sqrt(fma_(h, h, l * l)) * back;
  return (x == inf<double>) | (y == inf<double>) ? inf<double> : (a != a) | (b != b) ? a + b : value;
}

// Exponentials whose results are normal numbers need neither bounds nor a second factor.
template <class T> inline T times_power_of_two(T p, T n) {  // by the exponent's bits
  return std::bit_cast<T>(bits(p) + (bits(n + Fp<T>::magic) << Fp<T>::mantissa));
}
template <class T> inline T exp_near(T x) {
  T r, n = exp_reduce(x, r);
  return times_power_of_two(T(1) + fma_(r * r, exp_tail(r), r), n);
}
template <class T> inline T exp2_near(T x) {
  T n = rint_(x), r = (x - n) * T(0.693147180559945309417232);
  return times_power_of_two(T(1) + fma_(r * r, exp_tail(r), r), n);
}
template <class T> void exp_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  by_blocks<T>(p, n, T(0.6931471805599453) * T(Fp<T>::bias - 2), [](T x) { return exp_near(x); },
               [](T x) { return exp_(x); });
}
template <class T> void exp2_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  by_blocks<T>(p, n, T(Fp<T>::bias - 2), [](T x) { return exp2_near(x); }, [](T x) { return exp2_(x); });
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      from_loops<float, double>("exp", 1, {exp_loop<float>, exp_loop<double>}, 2),
      from_loops<float, double>("exp2", 1, {exp2_loop<float>, exp2_loop<double>}, 2),
      unary<[]<class T>(T a) { return expm1_(a); }, float, double>("expm1", 2),
      unary<[]<class T>(T a) { return log_(a); }, float, double>("log", 2),
      unary<[]<class T>(T a) { return log_(a / (T(1) - a)); }, float, double>("_logit", 2),
      unary<[]<class T>(T a) { return log2_(a); }, float, double>("log2", 2),
      unary<[]<class T>(T a) { return log10_(a); }, float, double>("log10", 2),
      unary<[]<class T>(T a) { return log1p_(a); }, float, double>("log1p", 2),
      with_number<bfloat16>(from_loops<float, double, bfloat16>("pow", 2, {pow_loop<float>, pow_loop<double>,
                                                                          pow_bfloat16}, 4), pow_bfloat16_number),
      binary<[]<class T>(T a, T b) { return logaddexp_(a, b); }, float, double>("logaddexp", 4),
      binary<[]<class T>(T a, T b) { return logaddexp2_(a, b); }, float, double>("logaddexp2", 4),
      binary<[]<class T>(T a, T b) { return xlogy_(a, b); }, float, double>("xlogy", 4),
      binary<[]<class T>(T a, T b) { return xlog1py_(a, b); }, float, double>("special_xlog1py", 4),
      binary<[]<class T>(T a, T b) { return hypot_(a, b); }, float, double>("hypot", 2),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

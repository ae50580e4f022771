// Elementary functions as branch-free scalar templates: a loop over any of them is vectorised by the compiler.
//
// Every function is written for float and double with one text; constants that differ stand in Fp<T>. Selections are
// conditional expressions (blends after vectorisation), scaling by 2^k is integer arithmetic on the exponent field. The
// polynomials are Chebyshev interpolants whose error is below the rounding error of the type. Included by the files of
// kernels/simd/ only, once per instruction set, hence the namespace: the two builds must not share an inline function.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifndef FLAMBEAU_SIMD
#define FLAMBEAU_SIMD avx2
#define FLAMBEAU_LEVEL 0
#endif

namespace flambeau::FLAMBEAU_SIMD {

template <class T> struct Fp;
template <> struct Fp<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float magic = 0x1.8p23f;        // x + magic keeps round(x) in the low mantissa bits
  static constexpr float exp_high = 89.f, power_low = -156.f, first_part = 0.8125f;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float pio2_a = 0x1.921fb6p+0f, pio2_b = -0x1.777a5cp-25f, pio2_c = -0x1.ee59dap-50f;
  static constexpr float smallest = 0x1p-126f, lift = 0x1p25f, lifted = 25.f, divides = 0x1p23f;
};
template <> struct Fp<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double magic = 0x1.8p52;
  static constexpr double exp_high = 710., power_low = -1091., first_part = 0.9375;
  static constexpr double ln2_high = 0x1.62e42fefap-1, ln2_low = 0x1.cf79abc9e3b3ap-40;
  static constexpr double pio2_a = 0x1.921fb54442d18p+0, pio2_b = 0x1.1a62633145c07p-54,
                          pio2_c = -0x1.f1976b7ed8fbcp-110;
  static constexpr double smallest = 0x1p-1022, lift = 0x1p54, lifted = 54., divides = 0x1p51;
};

template <class T> inline constexpr T inf = std::numeric_limits<T>::infinity();
template <class T> inline constexpr T nan = std::numeric_limits<T>::quiet_NaN();

template <class T> inline typename Fp<T>::Bits bits(T x) { return std::bit_cast<typename Fp<T>::Bits>(x); }
// Whether `holds` is true at all of n places. The failures are as wide as the numbers T that are looked at: narrower
// ones would be packed after every vector, which took longer than a sine.
template <class T, class F> inline bool all_of(int64_t n, F holds) {
  std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t> failures = 0;
  for (int64_t i = 0; i < n; ++i) failures |= holds(i) ? 0 : 1;
  return failures == 0;
}
template <class T> inline T abs_(T x) { return x < 0 ? -x : x + T(0); }  // +0: turns -0 into 0
template <> inline float abs_(float x) { return __builtin_fabsf(x); }
template <> inline double abs_(double x) { return __builtin_fabs(x); }
template <class T> inline T copysign_(T x, T sign) { return std::copysign(x, sign); }
template <class T> inline T rint_(T x) { return std::nearbyint(x); }
template <class T> inline T fma_(T a, T b, T c) { return std::fma(a, b, c); }

// 2^k for an integral k within the exponent range
template <class T> inline T power_of_two(T k) {
  return std::bit_cast<T>(bits<T>(k + (Fp<T>::magic + Fp<T>::bias)) << Fp<T>::mantissa);
}
template <class T, class... C> inline T horner(T x, T c0, C... c) {
  if constexpr (sizeof...(C) == 0) return c0;
  else return fma_(horner(x, T(c)...), x, c0);
}

// The same with even and odd powers apart: half as many operations wait for one another, which decides the time where
// they are more than a processor looks ahead.
template <class T> inline T every_second(T, T c) { return c; }
template <class T> inline T every_second(T, T c, T) { return c; }
template <class T, class... C> inline T every_second(T z, T c0, T, T c2, C... c) {
  return fma_(every_second(z, c2, T(c)...), z, c0);
}
template <class T, class... C> inline T horner_apart(T x, T c0, C... c) {
  const T z = x * x;
  return fma_(every_second(z, T(c)...), x, every_second(z, c0, T(c)...));
}

// (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 2
inline float exp_tail(float r) {
  return horner(r, 0.5f, 0.1666657338f, 0.04166655011f, 0.008363773874f, 0.001392692661f);
}
inline double exp_tail(double r) {
  return horner(r, 0.5, 0.1666666666666667144, 0.04166666666666667007, 0.0083333333333255447, 0.001388888888888332667,
                0.0001984126987686435493, 2.480158732707018673e-5, 2.755725283351690975e-6, 2.755727181021979957e-7,
                2.510627473357329469e-8, 2.091544229778011522e-9);
}
// x = n ln2 + r
template <class T> inline T exp_reduce(T x, T& r) {
  T n = rint_(x * T(1.442695040888963407359924681));
  r = fma_(n, -Fp<T>::ln2_low, fma_(n, -Fp<T>::ln2_high, x));
  return n;
}
// p 2^n for n >= power_low, in two steps: n alone may leave the exponent range while the product does not. The first
// one is 0 at power_low, which is below the smallest number, since a product that vanishes takes some processors a
// hundred cycles.
template <class T> inline T scale(T p, T n) {
  T first = std::floor(n * Fp<T>::first_part);
  return p * power_of_two(first) * power_of_two(n - first);
}
template <class T> inline T clamp_exponent(T x) {
  constexpr T low = Fp<T>::power_low * T(0.693147180559945309417232);
  x = x < low ? low : x;
  return x > Fp<T>::exp_high ? Fp<T>::exp_high : x;
}
template <class T> inline T exp_(T x) {
  T r, n = exp_reduce(clamp_exponent(x), r);
  return scale(T(1) + fma_(r * r, exp_tail(r), r), n);
}
// exp for sums like 1 + exp(x): results below the smallest normal number stop there (`low` is rounded up, so that none
// falls below it), larger ones reach infinity.
template <class T> inline T exp_normal(T x) {
  constexpr T low = T(-0.6931471805599453) * T(Fp<T>::bias - 2) * (T(1) - 4 * std::numeric_limits<T>::epsilon());
  x = x < low ? low : x;
  x = x > Fp<T>::exp_high ? Fp<T>::exp_high : x;
  T r, n = exp_reduce(x, r);
  T s = power_of_two(n - T(1));  // half of 2^n stays a number up to infinity
  return T(2) * (s * (T(1) + fma_(r * r, exp_tail(r), r)));
}
template <class T> inline T expm1_(T x) {
  constexpr T low = T(-0.6931471805599453) * T(Fp<T>::mantissa + 3);  // from here on the result rounds to -1
  T y = x < low ? low : x;
  y = y > Fp<T>::exp_high ? Fp<T>::exp_high : y;
  T r, n = exp_reduce(y, r);
  T p = fma_(r * r, exp_tail(r), r), s = power_of_two(n - T(1));
  T value = T(2) * fma_(s, p, s - T(0.5));
  return x == 0 ? x : value;  // keeps -0
}
template <class T> inline T exp2_(T x) {
  x = x < Fp<T>::power_low ? Fp<T>::power_low : x;
  x = x > T(Fp<T>::bias + 2) ? T(Fp<T>::bias + 2) : x;
  T n = rint_(x), r = (x - n) * T(0.693147180559945309417232);
  return scale(T(1) + fma_(r * r, exp_tail(r), r), n);
}

// log((1 + s) / (1 - s)) = 2 s + s z R(z), z = s^2, for arguments between sqrt(1/2) and sqrt(2)
inline float log_tail(float z) { return horner(z, 0.6666666655f, 0.4000012943f, 0.2854996859f, 0.233534276f); }
inline double log_tail(double z) {
  return horner(z, 0.6666666666666670142, 0.3999999999988661295, 0.2857142863176433466, 0.2222221019926420853,
                0.1818295660806362565, 0.1532950075419973047, 0.146436286019553887);
}
// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); x positive and finite
template <class T> inline T log_split(T x, T& f) {
  using Bits = typename Fp<T>::Bits;
  T adjust = x < Fp<T>::smallest ? Fp<T>::lifted : T(0);
  x = x < Fp<T>::smallest ? x * Fp<T>::lift : x;
  constexpr Bits one = std::bit_cast<Bits>(T(1)), root = std::bit_cast<Bits>(T(0.70710678118654752440));
  Bits shifted = bits(x) + (one - root);  // the carry decides which power of two belongs to x
  constexpr T two_m = T(Bits(1) << Fp<T>::mantissa);
  T e = std::bit_cast<T>((shifted >> Fp<T>::mantissa) | std::bit_cast<Bits>(two_m)) - (two_m + T(Fp<T>::bias));
  constexpr Bits mask = (Bits(1) << Fp<T>::mantissa) - 1;
  f = std::bit_cast<T>((shifted & mask) + root) - T(1);
  return e - adjust;
}
template <class T> inline T log_fraction(T f) {  // log(1 + f)
  T s = f / (T(2) + f), z = s * s, h = T(0.5) * f * f;
  return f - (h - s * (h + z * log_tail(z)));
}
template <class T> inline T log_edges(T x, T value) {
  value = x == inf<T> ? x : value;
  value = x == 0 ? -inf<T> : value;
  return x >= 0 ? value : nan<T>;  // negative and NaN
}
template <class T> inline T log_(T x) {
  T f, e = log_split(x, f);
  T s = f / (T(2) + f), z = s * s, h = T(0.5) * f * f;
  T value = fma_(e, Fp<T>::ln2_high, f - (h - fma_(s, h + z * log_tail(z), e * Fp<T>::ln2_low)));
  return log_edges(x, value);
}
template <class T> inline T log2_(T x) {
  T f, e = log_split(x, f);
  return log_edges(x, fma_(log_fraction(f), T(1.442695040888963407359924681), e));
}
inline double log10_(double x) {
  double f, e = log_split(x, f);
  double low = fma_(log_fraction(f), 0.4342944819032518276511289, e * 3.69423907715893078616e-13);
  return log_edges(x, fma_(e, 3.01029995663611771306e-01, low));
}
template <class T> inline T log1p_(T x) {
  T u = T(1) + x, f, e = log_split(u, f);
  T lost = e > T(1) ? T(1) - (u - x) : x - (u - T(1));  // what u = 1 + x rounded away
  T s = f / (T(2) + f), z = s * s, h = T(0.5) * f * f;
  T value = fma_(e, Fp<T>::ln2_high, f - (h - fma_(s, h + z * log_tail(z), fma_(e, Fp<T>::ln2_low, lost / u))));
  value = abs_(x) < std::numeric_limits<T>::epsilon() * T(0.25) ? x : value;
  return log_edges(u, value);
}

// --- trigonometric: valid up to trig_limit; loops send larger arguments to the C library
template <class T> inline constexpr T trig_limit = sizeof(T) == 4 ? T(30000) : T(1e6);

inline float sin_poly(float z) {
  return horner(z, -0.1666666666f, 0.008333331785f, -0.0001984003887f, 2.724378141e-6f);
}
inline double sin_poly(double z) {
  return horner(z, -0.1666666666666666667, 0.008333333333333331259, -0.0001984126984126456589, 2.755731921895476226e-6,
                -2.505210610025598921e-8, 1.605851087531919291e-10, -7.585486485235840416e-13);
}
inline float cos_poly(float z) { return horner(z, 0.04166666666f, -0.00138888876f, 2.480056043e-5f, -2.729583083e-7f); }
inline double cos_poly(double z) {
  return horner(z, 0.04166666666666666523, -0.001388888888888724138, 2.480158729853225905e-5, -2.755731715185886454e-7,
                2.08761215346084531e-9, -1.138086817144977096e-11);
}
template <class T> inline void sincos_reduced(T x, T& s, T& c, typename Fp<T>::Bits& quadrant) {
  T t = fma_(x, T(0.636619772367581343075535), Fp<T>::magic), n = t - Fp<T>::magic;
  quadrant = bits(t);
  T r = fma_(n, -Fp<T>::pio2_a, x);
  r = fma_(n, -Fp<T>::pio2_b, r);
  r = fma_(n, -Fp<T>::pio2_c, r);
  T z = r * r;
  s = fma_(r * z, sin_poly(z), r);
  c = fma_(z * z, cos_poly(z), fma_(z, T(-0.5), T(1)));
}
template <class T> inline T with_sign_bit(T x, typename Fp<T>::Bits odd) {  // -x where the lowest bit of `odd` is set
  return std::bit_cast<T>(bits(x) ^ (odd << (8 * sizeof(T) - 1)));
}
template <class T> inline T sin_(T x) {
  T s, c;
  typename Fp<T>::Bits q;
  sincos_reduced(x, s, c, q);
  T value = with_sign_bit((q & 1) ? c : s, q >> 1);
  return x == 0 ? x : value;
}
template <class T> inline T cos_(T x) {
  T s, c;
  typename Fp<T>::Bits q;
  sincos_reduced(x, s, c, q);
  return with_sign_bit((q & 1) ? s : c, (q + 1) >> 1);
}
inline double tan_(double x) {
  double s, c;
  uint64_t q;
  sincos_reduced(x, s, c, q);
  double value = (q & 1) ? -c / s : s / c;
  return x == 0 ? x : value;
}

// --- inverse trigonometric, in double; float has texts of its own
inline double atan_poly(double z) {
  return horner(z, -0.3333333333333333319, 0.1999999999999976106, -0.1428571428564901933, 0.1111111110411266161,
                -0.09090908702135936252, 0.07692294904896303873, -0.06666398746388620968, 0.05878631460320829612,
                -0.0522828476756460562, 0.04541795450071569316, -0.03432108211281546237, 0.01601200854730694316);
}
inline constexpr double kPi = 3.14159265358979323846, kPi2 = 1.57079632679489661923, kPi4 = 0.785398163397448309616;
// atan(y / x) for y, x >= 0; equal infinities count as equal numbers, 0 / 0 as 0
inline double atan_ratio(double y, double x) {
  double low = y < x ? y : x, high = y < x ? x : y;
  bool infinite = low == inf<double>;
  low = infinite ? 1. : low;
  high = infinite ? 1. : high;
  bool near_one = low > 0.41421356237309504880 * high;
  double num = near_one ? low - high : low, den = near_one ? low + high : high;
  den = den == 0 ? 1. : den;
  double t = num / den, z = t * t;
  double base = near_one ? kPi4 : 0.;
  double value = fma_(t * z, atan_poly(z), t) + base;
  return x < y ? kPi2 - value : value;
}
inline double atan_(double x) {
  double value = atan_ratio(abs_(x), 1.);
  value = x != x ? x : value;
  return x == 0 ? x : copysign_(value, x);
}
inline double atan2_(double y, double x) {
  double value = atan_ratio(abs_(y), abs_(x));
  double other = kPi - value;
  value = (bits(x) >> 63) != 0 ? other : value;
  value = copysign_(value, y);
  double bad = x + y;
  return (x != x) | (y != y) ? bad : value;
}
inline double asin_poly(double z) {
  return horner(z, 0.1666666666666666659, 0.07500000000000121323, 0.0446428571425432634, 0.03038194447634704644,
                0.0223721574037368492, 0.01735281769074104644, 0.01396375873507405766, 0.0115667223711979681,
                0.009619629203681253416, 0.009332327156197717212, 0.002995311657043865967, 0.01967836743041824863,
                -0.01942149876370524054, 0.0297272868697016572);
}
inline double asin_(double x) {
  double a = abs_(x);
  bool large = a > 0.5;
  double z = large ? (1 - a) * 0.5 : a * a, s = large ? std::sqrt(z) : a;
  double p = fma_(s * z, asin_poly(z), s);
  double value = large ? kPi2 - 2 * p : p;
  return copysign_(a > 1 ? nan<double> : value, x);
}
inline double acos_(double x) {
  double a = abs_(x);
  bool large = a > 0.5;
  double z = large ? (1 - a) * 0.5 : a * a, s = large ? std::sqrt(z) : a;
  double p = fma_(s * z, asin_poly(z), s);
  double value = large ? (x < 0 ? kPi - 2 * p : 2 * p) : kPi2 - copysign_(p, x) + 6.123233995736766036e-17;
  return a > 1 ? nan<double> : x != x ? x : value;
}

// --- hyperbolic
template <class T> inline T tanh_(T x) {
  T t = expm1_(T(-2) * abs_(x));
  return copysign_(-t / (t + T(2)), x);
}
template <class T> inline T sinh_(T x) {
  T a = abs_(x), t = expm1_(a > T(22) ? T(22) : a), half = exp_(a * T(0.5));
  T value = a > T(22) ? T(0.5) * half * half : T(0.5) * (t + t / (t + T(1)));
  return copysign_(value, x);
}
template <class T> inline T cosh_(T x) {
  T a = abs_(x), half = exp_(a * T(0.5)), e = half * half;
  return a > T(22) ? T(0.5) * half * half : T(0.5) * e + T(0.5) / e;
}
inline double asinh_(double x) {
  double a = abs_(x), q = a * a;
  bool large = a > 1e8;
  double value = large ? log_(a) + 0.693147180559945309 : log1p_(a + q / (1 + std::sqrt(1 + (large ? 1. : q))));
  return copysign_(value, x);
}
inline double acosh_(double x) {
  double t = x - 1;
  bool large = x > 1e8;
  double value = large ? log_(x) + 0.693147180559945309 : log1p_(t + std::sqrt(2 * t + t * t));
  return x < 1 ? nan<double> : value;
}
template <class T> inline T atanh_(T x) {
  T a = abs_(x);
  T value = T(0.5) * log1p_(T(2) * a / (T(1) - a));
  return copysign_(a > T(1) ? nan<T> : value, x);
}

// --- error function
inline float erf_(float x) {
  float a = abs_(x), z = a * a;
  float small = fma_(a, horner(z, 0.1283791671f, -0.3761263847f, 0.112837825f, -0.02686543073f, 0.005221031808f,
                               -0.0008484080406f, 0.0001126595903f, -9.667044571e-6f), a);
  float b = a > 4.f ? 4.f : a;
  float large =
      1.f - exp_normal(horner(b, 0.0003218662575f, -1.130241877f, -0.6318095501f, -0.1100972425f, 0.02643164328f,
                              -0.004763509663f, 0.0005976772749f, -4.616478516e-5f, 1.642678968e-6f));
  return copysign_(a > 1.f ? large : small, x);
}
// To 5 units of the last place, for sums like 1 + erf: x P(x^2) / Q(x^2) up to 3.924, where it rounds to 1.
inline float erf_quick(float x) {
  float c = x > 3.924f ? 3.924f : x;
  c = c < -3.924f ? -3.924f : c;
  float z = c * c;
  float p = horner(z, 1.128379188f, 0.1837001028f, 0.05442452814f, 0.00382781185f, 0.0003917436708f, 5.044238314e-6f,
                   -1.494960678e-8f);
  float q = horner(z, 1.f, 0.4961336941f, 0.1136087093f, 0.01546135334f, 0.001319401907f, 6.651209726e-5f);
  float value = c * p / q;
  value = value > 1.f ? 1.f : value;
  return value < -1.f ? -1.f : value;
}

template <class T> inline T sigmoid_(T x) { return T(1) / (T(1) + exp_normal(-x)); }
template <class T> inline T max_nan(T a, T b) { return a != a ? a : b != b ? b : a > b ? a : b; }
template <class T> inline T min_nan(T a, T b) { return a != a ? a : b != b ? b : a < b ? a : b; }

}  // namespace flambeau::FLAMBEAU_SIMD

#include "math_double.h"  // the longer texts of double
#include "math_float.h"   // and of float

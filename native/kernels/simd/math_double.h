// Error, gamma and power functions of double: branch-free texts like those of math.h, which includes this file.
//
// They are long: without the attribute the compiler would call them, and a loop with a call is not vectorised.
// The polynomials are Chebyshev interpolants, own to this project; their arguments run over [-1, 1].
#pragma once
#define FLAMBEAU_INLINE __attribute__((always_inline)) inline

namespace flambeau::FLAMBEAU_SIMD {

// --- error function
inline double erf_small_poly(double t) {
  return horner(t, 0.9654687386698673, -0.14053608902271712, 0.019852496688984219, -0.0022854855611441132,
                0.00021751715603563405, -1.7537169441124825e-5, 1.2233827638116998e-6,
                -7.5115692866008896e-8, 4.1157514975886458e-9, -2.035228404899467e-10,
                9.2112512583482653e-12, -3.8078827395263413e-13);
}
inline double erfc_scaled_poly(double t) {
  return horner(t, 1.2505272632390394, -0.121937366516477, -0.016635823178812181, 0.091243561297197796,
                -0.10434370398574778, 0.080838570729842762, -0.047931115987911948, 0.022129789668501919,
                -0.0076653242555049703, 0.0017257045228012053, -8.3680534251854481e-5,
                -0.0001024637415071111, 3.4145323707744907e-5, 6.7004487474003069e-7,
                -3.1238269993814763e-6, 4.5212171939315393e-7, 2.352120628463941e-7, -6.9158142995538798e-8,
                -1.6989748489009695e-8, 7.5363711407373743e-9, 9.6427354825081017e-10,
                -5.250749774906042e-10);
}
// erfc(a) for 0 <= a <= 28: exp(-a^2) / (1 + 2 a) times a polynomial in (a - 4) / (a + 4); the square in two parts
FLAMBEAU_INLINE double erfc_tail(double a) {
  double t = (a - 4) / (a + 4), square = a * a, rest = fma_(a, a, -square);
  return exp_(-square) * (1 - rest) * erfc_scaled_poly(fma_(t, 1 / 0.875, 1 / 0.875 - 1)) / (1 + 2 * a);
}
// log erfc(a) + a^2 for 1 <= a <= 5.93, where 1 - erfc(a) needs it: the less, the smaller erfc is
inline double log_erfc_poly(double t) {
  return horner_apart(t, -1.8530829636751727, -0.66171995620294455, 0.20538931707910457, -0.080128743175349418,
                      0.033225293883326269, -0.013881642432762322, 0.0056876424930490379, -0.0022369913175143172,
                      0.00087435350070294994, -0.00019230140640311903, 0.00013535083376310102,
                      -0.00022320535760502559, -0.00065025336109598758, -0.00094584297847423318,
                      -0.00085515766089276776, -0.00047695767105690722, -0.00015700734702869565,
                      -2.2273778886016758e-05);
}
FLAMBEAU_INLINE double erf_(double x) {
  double a = abs_(x), b = a > 5.93 ? 5.93 : a, c = a > 1 ? 1. : a;
  double small = a * erf_small_poly(fma_(2 * c, c, -1.));
  double logarithm = fma_(-b, b, log_erfc_poly(fma_(b, 1 / 2.465, -3.465 / 2.465)));
  double r, n = exp_reduce(logarithm, r), large = 1 - power_of_two(n) * (1 + fma_(r * r, exp_tail(r), r));
  return copysign_(a < 1 ? small : large, x);
}
FLAMBEAU_INLINE double erf_quick(double x) { return erf_(x); }
FLAMBEAU_INLINE double erfc_(double x) {
  double a = abs_(x), tail = erfc_tail(a > 28 ? 28. : a);
  return x < 0 ? 2 - tail : tail;
}
#include "../../../src/flambeau/cuda/kernels/shared/gamma.h"
// erfinv_ratio of a block: where none lies in a tail, as 499 of 500 numbers between -1 and 1 do not, no tail is
// computed.
inline void erfinv_ratios(double* c, int64_t n) {
  for (int64_t k = 0; k < n; ++k) c[k] = -log_(c[k]);
  if (all_of<double>(n, [c](int64_t k) { return erfinv_is_middle(c[k]); }))
    for (int64_t k = 0; k < n; ++k) c[k] = erfinv_middle(c[k]);
  else
    for (int64_t k = 0; k < n; ++k) c[k] = erfinv_from_log(c[k]);
}

// --- gamma function
inline double lg_poly(double t) {
  return horner(t, 0.42278433509846714, 0.16123351671205662, -0.016838075263298902, 0.0025726010534725419,
                -0.00046159693930862338, 9.0328447844899129e-5, -1.863677970188128e-5,
                3.9817930886596665e-6, -8.7169913550515409e-7, 1.9425327031438992e-7,
                -4.3870817464596285e-8, 1.001249236957858e-8, -2.3086762989770807e-9,
                5.3524559714714041e-10, -1.2049490071353507e-10, 2.8075860826633917e-11,
                -8.8691730508411574e-12, 2.1270762170785353e-12);
}
// log |gamma(x)|: near 2 a polynomial, from 3.5 on Stirling's series (DLMF 5.11.1) after six steps of the recurrence,
// below 0 the reflection; all products go into one logarithm.
FLAMBEAU_INLINE double lgamma_(double x) {
  bool negative = x < 0;
  double y = negative ? 1 - x : x;
  double shift = y < 0.5 ? 2. : y < 1.5 ? 1. : y < 2.5 ? 0. : -1.;
  double d = (y - 2) + shift;
  double near_product = y < 0.5 ? y * (y + 1) : y < 1.5 ? y : y < 2.5 ? 1. : 1 / (y - 1);
  double near = d * lg_poly(d + d);
  bool step = y < 10;
  double Y = step ? y + 6 : y, z = 1 / (Y * Y);
  double product = step ? (y * (y + 1)) * ((y + 2) * (y + 3)) * ((y + 4) * (y + 5)) : 1.;
  double series = horner(z, 1 / 12., -1 / 360., 1 / 1260., -1 / 1680., 1 / 1188., -691 / 360360., 1 / 156.) / Y;
  double far = fma_(Y - 0.5, log_(Y) - 1, 0.91893853320467274178 - 0.5) + series;
  bool small = y < 3.5;
  double value = small ? near : far, argument = small ? near_product : product;
  double r = x - rint_(x), sine = abs_(r * sinpi_poly(fma_(8 * r, r, -1.)));
  double l = log_(negative ? sine / argument : argument);
  value = negative ? 1.14472988584940017414 - value - l : value - l;
  return (abs_(x) == inf<double>) | (negative & (r == 0)) ? inf<double> : value;
}

// --- power
inline double powlog_poly(double t) {
  return horner(t, 0.20213161188798043, 0.0021563800745183067, 2.5071126620025771e-5, 3.0677350880091617e-7,
                3.8831304721575477e-9, 5.0368759838520231e-11, 6.650783750386379e-13);
}
// x^y = exp(y log x), the logarithm in two parts: with s = (m - 1) / (m + 1), log m = 2 (s + s^3 / 3 + s^5 Q(s^2)),
// where the first two terms are kept to twice the precision.
FLAMBEAU_INLINE double pow_(double x, double y) {
  double f, e = log_split(abs_(x), f), d = 2 + f, d_low = f - (d - 2);
  double s = f / d, s_low = (fma_(-s, d, f) - s * d_low) / d;
  double z = s * s, z_low = fma_(s, s, -z) + 2 * s * s_low;
  double cube = s * z, cube_low = fma_(s, z, -cube) + (s * z_low + s_low * z);
  constexpr double third = 1 / 3., third_low = 0x1.5555555555555p-56;
  double term = cube * third, term_low = fma_(cube, third, -term) + (cube * third_low + cube_low * third);
  double rest = cube * z * powlog_poly(fma_(z, 2 / 0.0295, -1.));
  double a = e * Fp<double>::ln2_high, b = 2 * s, high = a + b, back = high - a;
  double low = (a - (high - back)) + (b - back);
  double sum = high + 2 * term;
  low += (2 * term - (sum - high)) + (e * Fp<double>::ln2_low + 2 * (s_low + term_low + rest));
  double p = y * sum, p_low = fma_(y, sum, -p) + y * low;
  p_low = abs_(p) < 800 ? p_low : 0.;
  double r, n = exp_reduce(clamp_exponent(p), r);
  r += p_low;
  double value = scale(1 + fma_(r * r, exp_tail(r), r), n);
  double half = y * 0.5, magnitude = abs_(x);
  bool whole = std::floor(y) == y, odd = whole & (std::floor(half) != half);
  bool grows = (magnitude == 0) == (y < 0);
  value = (magnitude == 0) | (magnitude == inf<double>) ? (grows ? inf<double> : 0.) : value;
  value = odd & ((bits(x) >> 63) != 0) ? -value : value;
  value = (x < 0) & !whole & (x > -inf<double>) ? nan<double> : value;
  value = (magnitude == 1) & (abs_(y) == inf<double>) ? 1. : value;
  value = (x != x) | (y != y) ? nan<double> : value;
  return (x == 1) | (y == 0) ? 1. : value;
}

}  // namespace flambeau::FLAMBEAU_SIMD

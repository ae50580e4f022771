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
FLAMBEAU_INLINE double erf_(double x) {
  double a = abs_(x), b = a > 6 ? 6. : a, c = a > 1 ? 1. : a;
  double small = a * erf_small_poly(fma_(2 * c, c, -1.)), large = 1 - erfc_tail(b);
  return copysign_(a < 1 ? small : large, x);
}
inline double erf_quick(double x) { return erf_(x); }
FLAMBEAU_INLINE double erfc_(double x) {
  double a = abs_(x), tail = erfc_tail(a > 28 ? 28. : a);
  return x < 0 ? 2 - tail : tail;
}
inline double erfinv_mid_poly(double t) {
  return horner(t, 1.6536545626831027, 0.75049432007996358, -0.058922567103787135, -0.022604447453450232,
                0.01780836181873851, -0.004137314377403391, -0.0012716922767024804, 0.0012324855685500931,
                -0.00026439358874860611, -0.00011688883906368397, 9.336693850145469e-5,
                -1.5027713926607708e-5, -1.1255684830319912e-5, 7.1300663740768032e-6,
                -6.8759766044904705e-7, -1.0593369313281055e-6, 5.4557314494414916e-7,
                -1.0167881522667659e-8, -1.0509863560327061e-7, 3.91426710012073e-8, 9.0505163627754387e-9,
                -8.5579840744296514e-9, -8.1864429164465752e-11, 7.6809904754902919e-10);
}
inline double erfinv_tail_poly(double t) {
  return horner(t, 3.0838856104922206, 0.75394422577061935, 0.0030211394363839932, -0.0015825410891258779,
                0.00078830785100019651, -0.00040063570330678667, 0.00016966502589887311,
                -4.739178769056888e-5, 2.405839302031157e-6, 5.1271450753204668e-6, -2.6646986281363753e-6,
                5.2689924532186128e-7, 9.2676972709936179e-8, -9.5361903318473309e-8, 2.6703450893214522e-8,
                2.457367667912281e-10, -2.7192930488740746e-9, 6.8173091452384855e-10,
                3.8645975308357316e-12);
}
inline double erfinv_far_poly(double t) {
  return horner(t, 4.9004210514436404, 1.0607992684776605, -0.00018726854587221996, -0.00023188618673312447,
                8.6593048667674843e-5, -2.3451081695691086e-5, 5.6201649314465249e-6,
                -1.2763611159664724e-6, 2.9788420271490167e-7, -8.5217566825958055e-8,
                3.5542507808422227e-8, -1.9168484886373816e-8, 1.0431569308888431e-8,
                -4.9614407546638059e-9, 2.0706626485109551e-9, -8.0414111498012869e-10,
                1.7171209505455172e-10, 6.6243959316094417e-11, -3.7742013942025441e-11);
}
// erfinv(a) / a as a function of c = 1 - a^2, for c >= 8e-17
FLAMBEAU_INLINE double erfinv_ratio(double c) {
  double w = -log_(c), s = std::sqrt(w);
  double middle = erfinv_mid_poly(fma_(w, 1 / 3.125, -1.)), tail = erfinv_tail_poly((s - 3.25) / 0.75);
  double far = erfinv_far_poly((s - 5.05) / 1.05);
  return w < 6.25 ? middle : w < 16 ? tail : far;
}
FLAMBEAU_INLINE double erfinv_(double x) {
  double a = abs_(x), value = x * erfinv_ratio((1 - a) * (1 + a));
  value = a == 1 ? x * inf<double> : value;
  return a > 1 ? nan<double> : value;
}

// --- gamma function
inline double sinpi_poly(double t) {
  return horner(t, 2.5343242626615979, -0.56970368030763405, 0.036453105597104919, -0.0010924320054892531,
                1.8956829135131983e-5, -2.1447169597692547e-7, 1.707058303372582e-9,
                -1.0077340315799801e-11);
}
inline double cospi_poly(double t) {
  return horner(t, 0.44401584032621323, -0.49761340533700288, 0.055930528024297853, -0.0023858501821746723,
                5.3624630671739384e-5, -7.4443293989166089e-7, 7.0185698404130051e-9,
                -4.7882551686615333e-11, 2.4733412427050593e-13);
}
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
// psi(x): nine steps of the recurrence as one fraction, the asymptotic series (DLMF 5.11.2), below 0 the reflection
FLAMBEAU_INLINE double digamma_(double x) {
  bool negative = x < 0;
  double y = negative ? 1 - x : x, from = y < 9 ? y : 1.;
  double p = 1, q = from;  // p / q = sum of 1 / (from + k)
  for (int k = 1; k < 9; ++k) {
    double f = from + k;
    p = fma_(p, f, q);
    q *= f;
  }
  double Y = y < 9 ? y + 9 : y, z = 1 / (Y * Y);
  double tail = horner(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12);
  double value = log_(Y) - 0.5 / Y - z * tail - (y < 9 ? p / q : 0.);
  double r = x - rint_(x), t = fma_(8 * r, r, -1.);
  double cotangent = cospi_poly(t) / (r * sinpi_poly(t));
  value = negative ? value - kPi * cotangent : value;
  value = negative & (r == 0) ? nan<double> : value;
  return x == 0 ? copysign_(inf<double>, -x) : value;
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

// Functions of float that need more than the short texts of math.h, which includes this file: inverse trigonometric
// functions, tangent and decimal logarithm in float alone, the error functions and powers in double to 32 bits.
//
// Those in float alone stay within one unit of the last place: what a division, a square root or a reduction rounds
// away is found by a fused multiplication and added to the small part of the result.
#pragma once

namespace flambeau::FLAMBEAU_SIMD {

// 1 / x to an eighth, for corrections; x positive and normal
inline float about_reciprocal(float x) { return std::bit_cast<float>(0x7ef00000u - bits(x)); }

// base + t + small, where |small| < |t| <= base or base = 0; base is `high` and what it lacks, `low`
inline float add_small(float high, float low, float t, float small) {
  const float sum = high + t, lost = (high - sum) + t;
  return sum + (lost + (small + low));
}
inline constexpr float kPiHigh = 0x1.921fb6p+1f, kPiLow = -0x1.777a5cp-24f;

// --- inverse trigonometric
// atan(t + rest) = t + small for |t| <= 1; the angle grows by 1 / (1 + z)
inline float atan_small(float t, float rest) {
  const float z = t * t, lost = fma_(t, t, -z);
  const float p = horner(z, -0.3333329856f, 0.1999853104f, -0.1426405162f, 0.109511748f, -0.08400475234f,
                         0.0579065457f, -0.03112700209f, 0.01088736113f, -0.001787547604f);
  return fma_(t * z, p, fma_(rest, -0.5f * z, fma_(-0.15f * t, lost, rest)));
}
inline float atan_(float x) {
  float a = abs_(x);
  a = a > 0x1p60f ? 0x1p60f : a;
  const bool big = a > 1.f;
  const float inverse = 1.f / a, t = big ? inverse : a;
  const float rest = big ? fma_(-t, a, 1.f) * t : 0.f, p = atan_small(t, rest);
  const float value = add_small(big ? kPiHigh / 2 : 0.f, big ? kPiLow / 2 : 0.f, big ? -t : t, big ? -p : p);
  return copysign_(value, x);
}
// Equal infinities count as equal numbers, 0 / 0 as 0. Powers of two keep the quotient's correction a normal number.
inline float atan2_(float y, float x) {
  const float a = abs_(y), b = abs_(x);
  const bool steep = b < a, back = (bits(x) >> 31) != 0;
  float low = steep ? b : a, high = steep ? a : b;
  low = low == inf<float> ? 1.f : high == inf<float> ? 0.f : low;
  high = high == inf<float> || high == 0.f ? 1.f : high;
  const float by = high > 0x1p60f ? 0x1p-32f : low < 0x1p-60f ? 0x1p64f : 1.f;
  low *= by, high *= by;
  const float inverse = 1.f / high, t = low * inverse;
  const float p = atan_small(t, fma_(-t, high, low) * inverse);
  const float base = steep ? 0.5f : back ? 1.f : 0.f, sign = steep != back ? -1.f : 1.f;
  const float value = copysign_(add_small(base * kPiHigh, base * kPiLow, sign * t, sign * p), y), bad = x + y;
  return (x != x) | (y != y) ? bad : value;
}
// asin(s) = s + small for s^2 = z <= 1/4
inline float asin_small(float z, float s, float rest) {
  return fma_(s * z, horner(z, 0.1666675359f, 0.07495252043f, 0.04547604173f, 0.02415209264f, 0.04221179709f), rest);
}
// What the square root s of z lacks.
inline float root_rest(float z, float s) { return fma_(-s, s, z) * (0.5f * about_reciprocal(s)); }
inline float asin_(float x) {
  const float a = abs_(x);
  const bool large = a > 0.5f;
  const float z = large ? (1.f - a) * 0.5f : a * a, root = std::sqrt(z), s = large ? root : a;
  const float p = asin_small(z, s, large ? root_rest(z, root) : 0.f), by = large ? -2.f : 1.f;
  return copysign_(add_small(large ? kPiHigh / 2 : 0.f, large ? kPiLow / 2 : 0.f, by * s, by * p), x);
}
inline float acos_(float x) {
  const float a = abs_(x);
  const bool large = a > 0.5f;
  const float z = large ? (1.f - a) * 0.5f : a * a, root = std::sqrt(z), s = large ? root : a;
  const float p = asin_small(z, s, large ? root_rest(z, root) : 0.f);
  const float base = large ? (x < 0 ? 1.f : 0.f) : 0.5f, by = copysign_(large ? 2.f : 1.f, large ? x : -x);
  return add_small(base * kPiHigh, base * kPiLow, by * s, by * p);
}

// --- tangent, up to trig_limit. What is left of x after n quarter turns is r + rest.
inline float tan_(float x) {
  const float shifted = fma_(x, 0.636619772367581343f, Fp<float>::magic), n = shifted - Fp<float>::magic;
  const float first = fma_(n, -Fp<float>::pio2_a, x);  // exact
  const float more = n * -Fp<float>::pio2_b, r = first + more, part = r - first, z = r * r;
  const float lost = (first - (r - part)) + (more - part);
  const float rest = fma_(n, -Fp<float>::pio2_c, fma_(n, -Fp<float>::pio2_b, -more) + lost);
  const float p = horner(z, 0.3333334923f, 0.1333267242f, 0.05405943096f, 0.02128295042f, 0.01083696168f,
                         8.512511704e-05f, 0.004379598889f);
  // the tangent grows by about 1 + z + z^2; z has lost fma(r, r, -z)
  const float small = fma_(r * z, p, fma_(rest, fma_(z, z, z), fma_(0.5f * r, fma_(r, r, -z), rest)));
  const float value = r + small, turned = -1.f / value;
  const float fix = fma_(turned, value, 1.f) + turned * ((r - value) + small);
  const float result = (bits(shifted) & 1) ? fma_(turned, fix, turned) : value;
  return x == 0 ? x : result;
}

// --- logarithm to the base 10: f log10(e) in two parts, then the powers of f from the second on
inline float log10_(float x) {
  constexpr float by = 0x1.bcb7b2p-2f, by_low = -0x1.5b235ep-27f;       // log10(e)
  constexpr float two = 0x1.344p-2f, two_low = 0x1.3509f8p-18f;         // log10(2); e `two` is exact
  float f, e = log_split(x, f);
  const float q = horner(f, -0.2171471864f, 0.144764781f, -0.1085808426f, 0.08686871082f, -0.07212549448f,
                         0.06156137213f, -0.05753596127f, 0.05624405667f, -0.03330340981f);
  const float p = f * by, p_low = fma_(f, by_low, fma_(f, by, -p));
  return log_edges(x, add_small(e * two, e * two_low, p, fma_(f * f, q, p_low)));
}

// --- in double, to 32 bits
inline double log_positive(double x) {  // x normal
  double f, e = [&] {
    uint64_t shifted = bits(x) + (std::bit_cast<uint64_t>(1.) - std::bit_cast<uint64_t>(0.70710678118654752440));
    f = std::bit_cast<double>((shifted & 0xfffffffffffffull) + std::bit_cast<uint64_t>(0.70710678118654752440)) - 1;
    return std::bit_cast<double>((shifted >> 52) | 0x4330000000000000ull) - (0x1p52 + 1023);
  }();
  double s = f / (2 + f), z = s * s;
  double tail = horner(z, 0.6666666655, 0.4000012943, 0.2854996859, 0.233534276);
  return fma_(e, 0.693147180559945309417232, 2 * s + s * z * tail);
}
inline double exp_moderate(double x) {  // |x| < 700
  double n = rint_(x * 1.442695040888963407359925), r = fma_(n, -0.693147180559945309417232, x);
  double p = horner(r, 0.5, 0.166666667222, 0.0416666667222, 0.00833329706743, 0.00138888526339, 0.000199004414653,
                    2.4860745193e-5);
  return power_of_two(n) * (1 + fma_(r * r, p, r));
}

// exp(-a^2) / (a + 3) times a polynomial in (a - 3) / (a + 3): the tail keeps its relative accuracy
inline float erfc_(float x) {
  double a = abs_(double(x));
  a = a > 10.1 ? 10.1 : a;  // beyond, the result is below the smallest float
  double w = 1 / (a + 3), t = fma_(w, -6., 1.);
  double p = horner(t, 1.0740069077011, -0.88339448514154, 0.59022830456323, -0.31046604617423, 0.11952896669967,
                    -0.026839588515205, -0.0012258194931181, 0.0030800656321771, -0.00048437197415787,
                    -0.00032595230280837);
  double tail = exp_moderate(-a * a) * (p * w);
  tail = abs_(x) > 10.1f ? 0. : tail;
  return x != x ? x : float(x < 0 ? 2 - tail : tail);
}
// x times a polynomial in w = -log(1 - x^2), in sqrt(w) for the tails
inline float erfinv_(float x) {
  double w = -log_positive((1 - double(x)) * (1 + double(x))), s = std::sqrt(w) - 3;
  double middle = horner(w - 2.5, 1.5014093517482, 0.24664027674859, -0.0041773250804446, -0.0012527079573822,
                         0.00021826412519613, -4.9960000834909e-6, -3.4262661998811e-6, 4.7868969763621e-7,
                         1.6503642026108e-8, -1.0861759369034e-8, 4.3406282301315e-10, 1.2346565048335e-10);
  double tail = horner(s, 2.8329768015895, 1.001675257789, 0.0094453078449775, -0.007643190161582, 0.0056876141283801,
                       -0.0035647275335534, 0.0014752466166129, -0.00012520548759172, -0.00027703508704384,
                       0.00016498934861301, -3.0307905622506e-5, -9.538409166452e-7);
  float value = float((w < 5 ? middle : tail) * x);
  value = abs_(x) == 1.f ? x * inf<float> : value;
  return abs_(x) > 1.f ? nan<float> : value;
}

}  // namespace flambeau::FLAMBEAU_SIMD

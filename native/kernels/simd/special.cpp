// Special functions that are rare in hot loops: element by element, in double, from series and the C library. They are
// compiled once, but for what runs side by side.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

#include "../../../src/flambeau/cuda/kernels/shared/special.h"

// Halves have loops of their own here: the largest number that replaces an infinity depends on the dtype.
template <class H> void nan_to_num_half(char* const* p, const int64_t*, int64_t n, const Scalar* s) {
  const float most = std::is_same_v<H, float16> ? 65504.f : 3.38953139e38f;
  const H no = H(absent(s[0]) ? 0.f : number<float>(s[0])), high = H(absent(s[1]) ? most : number<float>(s[1]));
  const H low = H(absent(s[2]) ? -most : number<float>(s[2]));
  const uint16_t infinity = std::is_same_v<H, float16> ? 0x7c00 : 0x7f80;  // NaNs are above it, but for their sign
  const uint16_t nan_to = std::bit_cast<uint16_t>(no), high_to = std::bit_cast<uint16_t>(high),
                 low_to = std::bit_cast<uint16_t>(low);
  run1<uint16_t, uint16_t>(p, n, [=](uint16_t a) {
    uint16_t v = a == infinity ? high_to : a;
    v = a == uint16_t(infinity | 0x8000) ? low_to : v;
    return uint16_t((a & 0x7fff) > infinity ? nan_to : v);
  });
}

// The next number after a towards b: one step of the bits, which order numbers of one sign by size.
template <class T> inline T neighbour(T a, T b) {
  using Bits = typename Fp<T>::Bits;
  const Bits u = bits(a);
  const bool grows = (a < b) == (T(0) < a);
  T step = std::bit_cast<T>(grows ? Bits(u + 1) : Bits(u - 1));
  T first = std::copysign(std::numeric_limits<T>::denorm_min(), b);
  T next = a == T(0) ? first : step;
  next = a == b ? b : next;
  return a != a || b != b ? a + b : next;
}

// A block at a time by the polynomials, side by side; what lies beyond them one by one.
template <class T> void ndtri_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  constexpr int64_t kSide = 64;
  T* out = reinterpret_cast<T*>(p[0]);
  const T* x = reinterpret_cast<const T*>(p[1]);
  for (int64_t begin = 0; begin < n; begin += kSide) {
    const int64_t count = n - begin < kSide ? n - begin : kSide;
    double at[kSide], side[kSide], value[kSide];
    for (int64_t k = 0; k < kSide; ++k) at[k] = double(x[begin + (k < count ? k : 0)]);
    for (int64_t k = 0; k < kSide; ++k) {
      const double y = at[k] < 0.5 ? at[k] : 1 - at[k];
      side[k] = y > 1e-16 ? y : 0.25;
      value[k] = 4 * side[k] * (1 - side[k]);
    }
    erfinv_ratios(value, kSide);
    for (int64_t k = 0; k < kSide; ++k)
      value[k] = copysign_(1.4142135623730950488 * (1 - 2 * side[k]) * value[k], at[k] - 0.5);
    for (int64_t k = 0; k < count; ++k) {
      const double y = at[k] < 0.5 ? at[k] : 1 - at[k];
      out[begin + k] = T(y > 1e-16 ? value[k] : ndtri_(at[k]));
    }
  }
}

// psi'(x) for x > 0: ten steps of psi'(x) = psi'(x + 1) + 1 / x^2, two in one quotient, then Stirling's series.
inline double trigamma_near(double x) {
  double sum = 0;
  for (int k = 0; k < 10; k += 2) {
    const double a = (x + k) * (x + k), b = (x + k + 1) * (x + k + 1);
    sum += (a + b) / (a * b);
  }
  const double r = 1 / (x + 10), s = r * r;
  const double series =
      1. / 6 + s * (-1. / 30 + s * (1. / 42 + s * (-1. / 30 + s * (5. / 66 + s * (-691. / 2730 + s * (7. / 6))))));
  return sum + r * (1 + r * (0.5 + r * series));
}
// The first derivative, which gradients of digamma ask for, a block at a time; other orders one by one.
template <class T> void polygamma_loop(char* const* p, const int64_t*, int64_t n, const Scalar* s) {
  constexpr int64_t kSide = 64;
  T* out = reinterpret_cast<T*>(p[0]);
  const T* x = reinterpret_cast<const T*>(p[1]);
  const double order = number<double>(s[0]);
  auto is_near = [](double a) { return 0 < a && a < 1e30; };
  for (int64_t begin = 0; begin < n; begin += kSide) {
    const int64_t count = n - begin < kSide ? n - begin : kSide;
    double at[kSide], value[kSide];
    bool all = order == 1;
    for (int64_t k = 0; k < count; ++k) all &= is_near(at[k] = double(x[begin + k]));
    for (int64_t k = count; k < kSide; ++k) at[k] = 1;
    if (all)
      for (int64_t k = 0; k < kSide; ++k) value[k] = trigamma_near(at[k]);
    else
      for (int64_t k = 0; k < count; ++k) value[k] = polygamma_(at[k], order);
    for (int64_t k = 0; k < count; ++k) out[begin + k] = T(value[k]);
  }
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({from_loops<float, double>("_polygamma", 1, {polygamma_loop<float>, polygamma_loop<double>}, 32),
         from_loops<float, double>("special_ndtri", 1, {ndtri_loop<float>, ndtri_loop<double>}, 16)});
#if FLAMBEAU_LEVEL == 0
  r.add({
      binary<[]<class T>(T s, T q) { return T(zeta_(s, q)); }, float, double>("special_zeta", 32),
      unary<[]<class T>(T a) { return T(0.5 * std::erfc(-double(a) * 0.70710678118654752440)); }, float, double>(
          "special_ndtr", 16),
      unary<[]<class T>(T a) { return T(log_ndtr_(a)); }, float, double>("special_log_ndtr", 32),
      unary<[]<class T>(T a) { return T(erfcx_(a)); }, float, double>("special_erfcx", 32),
      unary<[]<class T>(T a) { return T(entr_(a)); }, float, double>("special_entr", 8),
      from_loops<float16, bfloat16>("nan_to_num", 1, {nan_to_num_half<float16>, nan_to_num_half<bfloat16>}),
      binary<[]<class T>(T a, T b) { return neighbour(a, b); }, float, double>("nextafter", 2),
  });
#endif
});

}  // namespace flambeau::FLAMBEAU_SIMD

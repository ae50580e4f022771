// Orthogonal polynomials of any degree, and the incomplete gamma functions: two operands, computed in double.
#include "loops.h"

#if FLAMBEAU_LEVEL == 0

namespace flambeau::FLAMBEAU_SIMD {

// --- polynomials by their three-term recurrences (DLMF 18.9); a negative degree gives 0
// ----------------------------------
//
// The time of these depends on the degree, which may be 10^10: with this weight even one element gives the interpreter
// lock back (kByValue in pointwise.h), and so can be interrupted.
constexpr int kByDegree = 255;

#include "../../../src/flambeau/cuda/kernels/shared/polynomial.h"

// P or Q of floats, a block at a time: the series of small `a`, side by side until no float sees more of it, and a
// factor without the C library. What is not small is computed one by one.
template <bool Upper, int64_t kSide>
void incomplete_gammas(char* const* p, const int64_t* s, int64_t begin, int64_t count) {
  float* out = reinterpret_cast<float*>(p[0]);
  const float *a = reinterpret_cast<const float*>(p[1]), *x = reinterpret_cast<const float*>(p[2]);
  double order[kSide], at[kSide], sum[kSide], term[kSide];
  float first[kSide], second[kSide];
  for (int64_t k = 0; k < kSide; ++k) {
    const int64_t i = begin + (k < count ? k : 0);
    first[k] = a[s[1] ? i : 0], second[k] = x[s[2] ? i : 0];
  }
  auto small = [&](int64_t k) { return first[k] > 0 && first[k] < 10 && second[k] > 0 && second[k] < first[k] + 1; };
  for (int64_t k = 0; k < kSide; ++k) {
    order[k] = small(k) ? double(first[k]) : 1, at[k] = small(k) ? double(second[k]) : 0.5;
    sum[k] = term[k] = 1;
  }
  int64_t more = 1;
  for (double step = 1; more; step += 1) {
    more = 0;
    for (int64_t k = 0; k < kSide; ++k) {
      term[k] *= at[k] / (order[k] + step);
      sum[k] += term[k];
      more |= term[k] > sum[k] * 1e-11 ? 1 : 0;
    }
  }
  for (int64_t k = 0; k < kSide; ++k)
    sum[k] *= exp_(order[k] * log_(at[k]) - at[k] - lgamma_(order[k] + 1));
  for (int64_t k = 0; k < count; ++k)
    out[begin + k] = float(!small(k) ? incomplete_gamma<Upper>(first[k], second[k])
                           : Upper   ? 1 - sum[k]
                                     : sum[k]);
}
template <bool Upper> void incomplete_gamma_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  constexpr int64_t kMany = 32, kFew = 8;
  int64_t at = 0;
  for (; n - at > kFew; at += kMany) incomplete_gammas<Upper, kMany>(p, s, at, n - at < kMany ? n - at : kMany);
  if (at < n) incomplete_gammas<Upper, kFew>(p, s, at, n - at);
}
template <bool Upper> ElementwiseRow incomplete_gamma_row(const char* name) {
  constexpr auto of_double = [](double a, double x) { return incomplete_gamma<Upper>(a, x); };
  return from_loops<float, double>(name, 2, {incomplete_gamma_loop<Upper>, loop2<of_double, 0, double>}, 32);
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      incomplete_gamma_row<false>("igamma"),
      incomplete_gamma_row<true>("igammac"),
      binary<[]<class T>(T a, T x) { return T(gamma_slope(a, x)); }, float, double>("_standard_gamma_grad", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::T>(x, n)); }, float, double>(
          "special_chebyshev_polynomial_t", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::U>(x, n)); }, float, double>(
          "special_chebyshev_polynomial_u", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::V>(x, n)); }, float, double>(
          "special_chebyshev_polynomial_v", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::W>(x, n)); }, float, double>(
          "special_chebyshev_polynomial_w", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::T>(2 * double(x) - 1, n)); }, float, double>(
          "special_shifted_chebyshev_polynomial_t", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::U>(2 * double(x) - 1, n)); }, float, double>(
          "special_shifted_chebyshev_polynomial_u", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::V>(2 * double(x) - 1, n)); }, float, double>(
          "special_shifted_chebyshev_polynomial_v", kByDegree),
      binary<[]<class T>(T x, T n) { return T(chebyshev<Kind::W>(2 * double(x) - 1, n)); }, float, double>(
          "special_shifted_chebyshev_polynomial_w", kByDegree),
      // the degrees beyond which PyTorch gives up: by the exponent range of the dtype
      binary<[]<class T>(T x, T n) { return T(hermite(x, n, 2, sizeof(T) == 4 ? 128 : 512)); }, float, double>(
          "special_hermite_polynomial_h", 16),
      binary<[]<class T>(T x, T n) { return T(hermite(x, n, 1, sizeof(T) == 4 ? 128 : 512)); }, float, double>(
          "special_hermite_polynomial_he", 16),
      binary<[]<class T>(T x, T n) { return T(laguerre(x, n)); }, float, double>("special_laguerre_polynomial_l",
                                                                                 kByDegree),
      binary<[]<class T>(T x, T n) { return T(legendre(x, n)); }, float, double>("special_legendre_polynomial_p",
                                                                                 kByDegree),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD
#endif

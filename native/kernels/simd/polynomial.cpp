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

// P or Q as a float: the series of a small `a` ends where a float sees no more of it, and needs no C library.
template <bool Upper> float incomplete_gamma_of_float(float a, float x) {
  if (!(a > 0 && a < 10 && x > 0 && x < a + 1)) return float(incomplete_gamma<Upper>(a, x));
  double sum = 1, term = 1;
  for (double k = double(a) + 1; term > sum * 1e-11; k += 1) sum += term *= x / k;
  const double p = exp_(a * log_(double(x)) - x - lgamma_(double(a) + 1)) * sum;
  return float(Upper ? 1 - p : p);
}
template <bool Upper> ElementwiseRow incomplete_gamma_row(const char* name) {
  auto row = binary<[]<class T>(T a, T x) {
    if constexpr (sizeof(T) == 4) return incomplete_gamma_of_float<Upper>(a, x);
    else return T(incomplete_gamma<Upper>(a, x));
  }, float, double>(name, 32);
  return row;
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

// Special functions that are rare in hot loops: in double, from series and the C library.

inline double trigamma_(double x) {
  if (x == std::floor(x) && x <= 0) return inf<double>;
  if (x < 0.5) {
    double s = std::sin(kPi * x);
    return kPi * kPi / (s * s) - trigamma_(1 - x);
  }
  double value = 0;
  for (; x < 10; x += 1) value += 1 / (x * x);
  double z = 1 / (x * x);
  double tail = horner(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6);
  return value + 1 / x + 0.5 * z + z / x * tail;
}
// Hurwitz zeta(s, q) by Euler and Maclaurin (DLMF 25.11.5) from q >= s + 12 on, or until the terms no longer count.
inline double hurwitz(double s, double q) {
  double sum = 0, power = 1;
  for (; q < s + 12; q += 1) {
    sum += power = std::pow(q, -s);
    if (q > 1 && !(abs_(power) > abs_(sum) * 1e-18)) return sum;
  }
  power = std::pow(q, -s);
  double term = s * power / q, square = 1 / (q * q);
  constexpr double ratio[] = {1.0 / 12,          -1.0 / 720,
                              1.0 / 30240,       -1.0 / 1209600,
                              1.0 / 47900160,    -691.0 / 1307674368000.0,
                              1.0 / 74724249600, -3617.0 / 10670622842880000};
  sum += power * q / (s - 1) + 0.5 * power;
  for (int k = 0; k < 8; ++k) {
    sum += ratio[k] * term;
    term *= (s + 2 * k + 1) * (s + 2 * k + 2) * square;
  }
  return sum;
}
inline double zeta_(double s, double q) {
  if (s == 1) return inf<double>;
  if (!(s > 1) || q != q) return nan<double>;
  if (q <= 0) {
    if (q == std::floor(q)) return inf<double>;
    if (s != std::floor(s) || q < -1e6) return nan<double>;
  }
  return s == inf<double> && q > 1 ? nan<double> : hurwitz(s, q);
}
inline double polygamma_(double x, double n) {
  if (n == 0) return digamma_(x);
  if (n == 1) return trigamma_(x);
  double value = std::tgamma(n + 1) * zeta_(n + 1, x);
  return std::fmod(n, 2) == 1 ? value : -value;
}
// Central and moderate tails by erfinv's polynomials, whose argument c = 4 p (1 - p) keeps its digits.
inline double ndtri_(double p) {
  double y = p < 0.5 ? p : 1 - p;
  if (y > 1e-16) return copysign_(1.4142135623730950488 * (1 - 2 * y) * erfinv_ratio(4 * y * (1 - y)), p - 0.5);
  return p < 0 || 1 < p ? nan<double>
         : p < 0.1      ? [](double q) {  // far below one half 2 p - 1 loses digits: Newton on erfc
             if (q == 0) return -inf<double>;
             double s = std::sqrt(-2 * std::log(q)), x = std::log(2 * kPi * s * s) / (2 * s) - s;
             for (int k = 0; k < 60; ++k) {
               double cdf = 0.5 * std::erfc(-x * 0.70710678118654752440);
               double step = (std::log(cdf) - std::log(q)) * cdf / (0.39894228040143267794 * std::exp(-0.5 * x * x));
               x -= step;
               if (abs_(step) < 1e-15 * abs_(x)) break;
             }
             return x;
           }(p)
                   : 1.4142135623730950488 * erfinv_(2 * p - 1);
}
inline double entr_(double x) { return x != x ? x : 0 < x ? -x * std::log(x) : x == 0 ? 0. : -inf<double>; }
// erfc(x) exp(x^2): directly while the parts are in range, by a continued fraction beyond
inline double erfcx_(double x) {
  if (x < 20) return x < -26.7 ? inf<double> : std::exp(x * x) * std::erfc(x);
  double t = 0;
  for (int k = 30; k > 0; --k) t = 0.5 * k / (x + t);
  return 0.56418958354775628695 / (x + t);
}
inline double log_ndtr_(double x) {
  constexpr double r = 0.70710678118654752440;
  return x < -1 ? std::log(erfcx_(-x * r) * 0.5) - x * x * 0.5 : std::log1p(-0.5 * std::erfc(x * r));
}

// Orthogonal polynomials of any degree by their three-term recurrences (DLMF 18.9; a negative degree gives 0), and the
// incomplete gamma functions: in double.

constexpr int64_t kClosedDegree = 1 << 20;  // from here on hyperbolic functions are the more accurate way, too

// The four kinds of Chebyshev polynomials differ in p_1 alone; inside (-1, 1) a high degree is a quotient of cosines.
enum class Kind { T, U, V, W };
template <Kind K> inline double chebyshev(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  bool even = n % 2 == 0;
  if (abs_(x) == 1) {
    double top = K == Kind::U ? n + 1. : K == Kind::T || (K == Kind::V) == (x > 0) ? 1. : 2. * n + 1;
    return x > 0 || even ? top : -top;
  }
  if (n > 8 && abs_(x) < 1) {
    double angle = std::acos(x);
    if (K == Kind::T) return std::cos(n * angle);
    if (K == Kind::U) return std::sin((n + 1) * angle) / std::sin(angle);
    if (K == Kind::V) return std::cos((n + 0.5) * angle) / std::cos(angle * 0.5);
    return std::sin((n + 0.5) * angle) / std::sin(angle * 0.5);
  }
  if (n > kClosedDegree && abs_(x) > 1) {
    double angle = std::acosh(abs_(x)), sign = x > 0 || even ? 1 : -1;
    if (K == Kind::T) return sign * std::cosh(n * angle);
    if (K == Kind::U) return sign * std::sinh((n + 1) * angle) / std::sinh(angle);
    if ((K == Kind::V) == (x > 0)) return sign * std::cosh((n + 0.5) * angle) / std::cosh(angle * 0.5);
    return sign * std::sinh((n + 0.5) * angle) / std::sinh(angle * 0.5);
  }
  double before = 1, p = K == Kind::T ? x : K == Kind::U ? 2 * x : K == Kind::V ? 2 * x - 1 : 2 * x + 1;
  if (n == 0) return 1;
  for (int64_t k = 2; k <= n && p == p; ++k) {
    double next = 2 * x * p - before;
    before = p;
    p = next;
  }
  return p;
}
inline double hermite(double x, double degree, double factor,
                      int64_t most) {  // factor 2: physicists', 1: probabilists'
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (n == 0) return 1;
  if (n == 1) return factor * x;
  if (n > most) return nan<double>;
  double before = 1, p = factor * x;
  for (int64_t k = 1; k < n; ++k) {
    double next = factor * (x * p - double(k) * before);
    before = p;
    p = next;
  }
  return p;
}
inline double laguerre(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (n == 0 || x == 0) return 1;
  double before = 1, p = 1 - x;
  Poll poll;
  for (int64_t k = 1; k < n && p == p; ++k) {
    double next = ((2 * k + 1 - x) * p - k * before) / (k + 1);
    before = p;
    p = next;
    poll();
  }
  return p;
}
inline double legendre(double x, double degree) {
  int64_t n = int64_t(degree);
  if (n < 0) return 0;
  if (abs_(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
  if (n == 0) return 1;
  double before = 1, p = x;
  Poll poll;
  for (int64_t k = 1; k < n && p == p; ++k) {
    double next = ((2 * k + 1) * x * p - k * before) / (k + 1);
    before = p;
    p = next;
    poll();
  }
  return p;
}

// --- incomplete gamma functions -------------------------------------------------------------------------------------

// x^a exp(-x) / gamma(a + 1). Large a: gamma by Stirling's series, so that the two large exponents never meet.
inline double gamma_front(double a, double x) {
  if (a < 10) return std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  double mu = (x - a) / a, z = 1 / (a * a);
  double correction = horner(z, 1 / 12., -1 / 360., 1 / 1260., -1 / 1680., 1 / 1188.) / a;
  return std::exp(-a * (mu - std::log1p(mu)) - correction) / std::sqrt(2 * kPi * a);
}
// P by its series (DLMF 8.7.1): for x < a + 1
inline double gamma_series(double a, double x) {
  double sum = 1, term = 1;
  for (double k = a + 1; term > sum * 1e-17; k += 1) sum += term *= x / k;
  return gamma_front(a, x) * sum;
}
// Q by Legendre's continued fraction (DLMF 8.9.2) in Lentz' form: for x >= a + 1
inline double gamma_fraction(double a, double x) {
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int k = 1; k < 100000; ++k) {
    double numerator = -k * (k - a);
    b += 2;
    d = numerator * d + b;
    d = 1 / (abs_(d) < 1e-300 ? 1e-300 : d);
    c = b + numerator / c;
    c = abs_(c) < 1e-300 ? 1e-300 : c;
    h *= d * c;
    if (abs_(d * c - 1) < 1e-16) break;
  }
  return gamma_front(a, x) * a * h;
}
// Q for very large a: the leading terms of the uniform expansion (DLMF 8.12).
inline double gamma_uniform(double a, double x) {
  double mu = (x - a) / a, eta = std::copysign(std::sqrt(2 * (mu - std::log1p(mu))), mu);
  if (0.5 * a * eta * eta > 750) return eta < 0;
  double rest = horner(eta, -1 / 3., 1 / 12., -2 / 135., 1 / 864.) + horner(eta, -1 / 540., -1 / 288.) / a;
  double edge = std::exp(-0.5 * a * eta * eta) / std::sqrt(2 * kPi * a);
  return 0.5 * std::erfc(eta * std::sqrt(a * 0.5)) + edge * rest;
}
// Upper: Q, else P = 1 - Q
template <bool Upper> inline double incomplete_gamma(double a, double x) {
  if (x < 0 || a < 0) return nan<double>;
  if (a == 0) return x > 0 ? double(!Upper) : nan<double>;
  if (x == 0) return Upper;
  if (a == inf<double>) return x == a ? nan<double> : double(Upper);
  if (x == inf<double>) return !Upper;
  if (a != a || x != x) return nan<double>;
  if (a > 1e6) {
    double q = gamma_uniform(a, x);
    return Upper ? q : 1 - q;
  }
  if (x < a + 1) {
    double p = gamma_series(a, x);
    return Upper ? 1 - p : p;
  }
  double q = gamma_fraction(a, x);
  return Upper ? q : 1 - q;
}

// Minus the derivative of P(a, x) by a, over the density of the gamma distribution at x: by the series of P.
inline double gamma_slope(double a, double x) {
  if (!(a > 0) || !(x > 0)) return a != a || x != x ? nan<double> : 0;
  double term = 1 / a, shift = std::log(x) - digamma_(a + 1), sum = 0;  // terms of x^(k+1) / (a (a + 1) … (a + k))
  double k = a;
  Poll poll;
  for (int64_t step = 0; step < 2000000; ++step, poll()) {
    double part = term * shift;
    sum += part;
    k += 1;
    term *= x / k;
    shift -= 1 / k;
    if (k > x && abs_(term * shift) < 1e-17 * abs_(sum)) break;
  }
  return -x * sum;
}

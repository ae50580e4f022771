// How shares of 1 move with their concentrations: the derivative of the incomplete beta function by a parameter.

// A number and its derivative by the parameter.
struct Dual {
  double v, d = 0;
};
inline Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
inline Dual operator-(Dual a) { return {-a.v, -a.d}; }
inline Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
inline Dual operator/(Dual a, Dual b) {
  double q = a.v / b.v;
  return {q, (a.d - q * b.d) / b.v};
}

// The continued fraction of I_x(a, b) a B(a, b) / (x^a (1 - x)^b), DLMF 8.17.22, by Lentz's method, with its
// derivative. It converges in some sqrt(max(a, b)) steps where x < (a + 1) / (a + b + 2).
inline Dual beta_fraction(Dual a, Dual b, double x) {
  const Dual one{1}, at{x};
  Dual c = one, d = one / (one + -((a + b) * at / (a + one))), h = d;
  Poll poll;
  for (int64_t m = 1; m < 1000000; ++m, poll()) {
    const Dual k{double(m)}, top = a + k + k;
    Dual step = k * (b + -k) * at / ((top + -one) * top);
    d = one / (one + step * d);
    c = one + step / c;
    h = h * d * c;
    step = -((a + k) * (a + b + k) * at / (top * (top + one)));
    d = one / (one + step * d);
    c = one + step / c;
    const Dual factor = d * c;
    h = h * factor;
    if (abs_(factor.v - 1) < 1e-16 && abs_(factor.d) < 1e-16 * (1 + abs_(h.d / h.v))) break;
  }
  return h;
}

// d x / d a of a Beta(a, b) sample, over 1 - x: minus the derivative of the distribution by a, over density and 1 - x.
inline double share_slope(double x, double a, double total) {
  const double b = total - a;
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return nan<double>;
  if (x == 0) return 0;
  const double rise = std::log(x) - digamma_(a) + digamma_(total);
  if (x < (a + 1) / (total + 2)) {
    const Dual h = beta_fraction({a, 1}, {b}, x);
    return -x / a * (h.v * (rise - 1 / a) + h.d);
  }
  const Dual h = beta_fraction({b}, {a, 1}, 1 - x);  // of the complement, whose parameters are exchanged
  return x / b * (h.v * rise + h.d);
}

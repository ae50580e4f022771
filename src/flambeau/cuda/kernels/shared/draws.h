// Numbers of distributions that need an unknown number of draws: Poisson, gamma, binomial. A generator has u53(),
// uniform in [0, 1), and gauss(). What is not a number stays that: every loop must come to an end.

// Knuth's product of uniforms below 10, Hörmann's transformed rejection (PTRS, 1993) from there.
template <class G> FLAMBEAU_INLINE double draw_poisson(G& g, double rate) {
  if (!(rate > 0 && rate - rate == 0)) return rate == 0 ? 0 : std::log(-1.);
  if (rate < 10) {
    double limit = std::exp(-rate), product = 1;
    for (int64_t k = 0;; ++k) {
      product *= g.u53();
      if (product <= limit) return double(k);
    }
  }
  double root = std::sqrt(rate), log_rate = std::log(rate);
  double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = g.u53() - 0.5, v = g.u53(), us = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - std::lgamma(k + 1))
      return k;
  }
}

// Marsaglia and Tsang 2000 (with constants rounded to float, as in PyTorch); below 1 the sample of alpha + 1 times a
// power of a uniform number.
template <class G> FLAMBEAU_INLINE double draw_gamma(G& g, double alpha) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    scale = std::pow(1 - g.u53(), 1 / alpha);
    alpha += 1;
  }
  const double d = alpha - double(1.0f / 3.0f), c = 1 / std::sqrt(9 * d);
  if (!(d > 0)) return std::log(-1.);
  for (;;) {
    double x, y;
    do {
      x = g.gauss();
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - g.u53(), square = x * x;
    if (u < 1 - double(0.0331f) * square * square || std::log(u) < 0.5 * square + d * (1 - v + std::log(v)))
      return scale * d * v;
  }
}

// What Stirling's formula for log k! leaves out.
FLAMBEAU_INLINE double stirling_rest(double k) {
  constexpr double small[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.0207906721037650,
                              0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                              0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return small[int(k)];
  double z = 1 / ((k + 1) * (k + 1));
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 * z) * z) / (k + 1);
}
// Hoermann's transformed rejection BTRS (1993): for n p >= 10, p <= 1/2.
template <class G> FLAMBEAU_INLINE double binomial_rejection(G& g, double n, double p) {
  const double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = n * p + 0.5, v_r = 0.92 - 4.2 / b, odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation;
  const double m = std::floor((n + 1) * p);
  for (;;) {
    const double u = g.u53() - 0.5, v = g.u53(), us = 0.5 - std::fabs(u), k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > n) continue;
    const double bound = (m + 0.5) * std::log((m + 1) / (odds * (n - m + 1))) +
                         (n + 1) * std::log((n - m + 1) / (n - k + 1)) +
                         (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1)) + stirling_rest(m) + stirling_rest(n - m) -
                         stirling_rest(k) - stirling_rest(n - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}
// Below that: how many geometric waiting times fit into n trials.
template <class G> FLAMBEAU_INLINE double binomial_waiting(G& g, double n, double p) {
  const double log_failure = std::log1p(-p);
  double trials = 0;
  for (int64_t successes = 0;; ++successes) {
    trials += std::ceil(std::log(g.u53()) / log_failure);
    if (trials > n) return double(successes);
  }
}
template <class G> FLAMBEAU_INLINE double draw_binomial(G& g, double n, double p) {
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  if (p != p || n != n) return p + n;
  const double q = p <= 0.5 ? p : 1 - p, k = n * q >= 10 ? binomial_rejection(g, n, q) : binomial_waiting(g, n, q);
  return p <= 0.5 ? k : n - k;
}

// Roots, exponentials, logarithms, powers, trigonometric and hyperbolic functions of complex numbers: formulas of real
// functions, in double for both types, so that nothing overflows or cancels in those of complex64. Blocks are split
// into real and imaginary parts and computed side by side; an infinity, NaN or a number beyond what a formula is
// good for takes the C library's function instead.
#include <cstring>

#include "complex_parts.h"

namespace flambeau::FLAMBEAU_SIMD {

struct Z {
  double re, im;
};
// Where a formula holds: parts at most `re` and `im`; where it squares them, the larger one 0 or at least `least`.
struct Range {
  double re, im, least;
};
inline constexpr double kLarge = 0x1p500;
inline constexpr Range kFinite{kLarge, kLarge, 0x1p-480},
    kTurns{inf<double>, trig_limit<double> / 2, 0}, kExp{700, trig_limit<double> / 2, 0},
    kHyperbolic{300, trig_limit<double> / 2, 0},
    kTurned{trig_limit<double> / 2, 300, 0};

inline constexpr int64_t kPart = 256;
struct Planes {
  alignas(64) double re[kPart], im[kPart];

  template <class R>
  void take(const std::complex<R>* from, int64_t step, int64_t n) {
    const R* p = reinterpret_cast<const R*>(from);
    if (step == 0) {
      for (int64_t i = 0; i < n; ++i) re[i] = double(p[0]), im[i] = double(p[1]);
      return;
    }
    for (int64_t i = 0; i < n; ++i) re[i] = double(p[2 * i]), im[i] = double(p[2 * i + 1]);
  }
  template <class R>
  void give(std::complex<R>* to, int64_t n) const {
    R* p = reinterpret_cast<R*>(to);
    for (int64_t i = 0; i < n; ++i) p[2 * i] = R(re[i]), p[2 * i + 1] = R(im[i]);
  }
  template <class R>
  void give(R* to, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) to[i] = R(re[i]);
  }
  bool outside(Range range, int64_t i) const {
    const double x = abs_(re[i]), y = abs_(im[i]), high = x < y ? y : x;
    return !(x <= range.re) | !(y <= range.im) | ((high < range.least) & (high != 0));
  }
  bool within(Range range, int64_t n) const {
    return all_of<double>(n, [&](int64_t i) { return !outside(range, i); });
  }
  template <class F>
  void each(int64_t n, F f) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<decltype(f(Z{})), double>) {
        re[i] = f(Z{re[i], im[i]});
      } else {
        const Z z = f(Z{re[i], im[i]});
        re[i] = z.re;
        im[i] = z.im;
      }
    }
  }
};

// What the C library makes of a block's numbers outside of a formula's range, which makes something harmless of them.
// It is computed before the results are written, since they may go where the numbers were.
template <class Out>
struct Outside {
  int64_t count = 0, at[2 * kPart];  // some are outside of two ranges
  alignas(Out) char value[2 * kPart * sizeof(Out)];

  template <class Slow>
  void take(Planes& planes, Range range, int64_t n, Slow slow) {
    if (planes.within(range, n)) return;
    for (int64_t i = 0; i < n; ++i)
      if (planes.outside(range, i)) {
        const Out found = slow(i);
        std::memcpy(value + count * int64_t(sizeof found), &found, sizeof found);
        at[count++] = i;
        planes.re[i] = 1;
        planes.im[i] = 0;
      }
  }
  void give(Out* to) const {
    for (int64_t k = 0; k < count; ++k) std::memcpy(to + at[k], value + k * int64_t(sizeof(Out)), sizeof(Out));
  }
};

template <auto fast, auto slow, Range range, class T>
__attribute__((flatten)) void planar_loop(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  using Out = decltype(slow(T()));
  Planes planes;
  const T* from = reinterpret_cast<const T*>(p[1]);
  Out* to = reinterpret_cast<Out*>(p[0]);
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t m = n - at < kPart ? n - at : kPart;
    planes.take(from + at, 1, m);
    Outside<Out> others;
    others.take(planes, range, m, [&](int64_t i) { return slow(from[at + i]); });
    planes.each(m, [](Z z) __attribute__((always_inline)) { return fast(z); });
    planes.give(to + at, m);
    others.give(to + at);
  }
}
template <auto fast, auto slow, Range range>
ElementwiseRow planar(const char* name, int weight = 6) {
  return from_loops<complex64, complex128>(
      name, 1, {planar_loop<fast, slow, range, complex64>, planar_loop<fast, slow, range, complex128>}, weight);
}

// --- formulas
FLAMBEAU_INLINE Z scaled(Z z, double by) { return {z.re * by, z.im * by}; }
FLAMBEAU_INLINE Z product(Z a, Z b) { return {a.re * b.re - a.im * b.im, fma_(a.re, b.im, a.im * b.re)}; }
FLAMBEAU_INLINE Z quotient(Z a, Z b) {  // of moderate numbers
  const double by = 1 / fma_(b.re, b.re, b.im * b.im);
  return {fma_(a.re, b.re, a.im * b.im) * by, (a.im * b.re - a.re * b.im) * by};
}
FLAMBEAU_INLINE Z turn(double angle) {  // e^(i angle)
  double s, c;
  uint64_t q;
  sincos_reduced(angle, s, c, q);
  const double sine = with_sign_bit((q & 1) ? c : s, q >> 1);
  return {with_sign_bit((q & 1) ? s : c, (q + 1) >> 1), angle == 0 ? angle : sine};
}
FLAMBEAU_INLINE double square_of(Z z) {
  const double x = abs_(z.re), y = abs_(z.im), high = x < y ? y : x, low = x < y ? x : y;
  return fma_(high, high, low * low);
}
FLAMBEAU_INLINE double magnitude(Z z) { return std::sqrt(square_of(z)); }
FLAMBEAU_INLINE Z root(Z z) {
  const double r = std::sqrt((magnitude(z) + abs_(z.re)) * 0.5), other = r == 0 ? z.im : z.im / (r + r);
  const bool right = !(z.re < 0);
  return {right ? r : abs_(other), right ? other : copysign_(r, z.im)};
}
FLAMBEAU_INLINE Z inverse_root(Z z) {
  const Z r = root(z), value = quotient({1, 0}, r);
  const bool zero = (z.re == 0) & (z.im == 0);
  return {zero ? inf<double> : value.re, zero ? nan<double> : value.im};
}
FLAMBEAU_INLINE Z exp_of(Z z) { return scaled(turn(z.im), exp_(z.re)); }
FLAMBEAU_INLINE Z expm1_of(Z z) {
  const Z t = turn(z.im);
  const double s = turn(z.im * 0.5).im, im = exp_(z.re) * t.im;
  return {expm1_(z.re) * t.re - 2 * s * s + 0., z.im == 0 ? z.im : im};
}
// |z|^2 - 1 where that is small: squares and their sum with what they round away
FLAMBEAU_INLINE double excess(Z z) {
  const double x = abs_(z.re), y = abs_(z.im), high = x < y ? y : x, low = x < y ? x : y;
  const double h = high * high, l = low * low, h_rest = fma_(high, high, -h), l_rest = fma_(low, low, -l);
  const double d = h - 1, d_rest = h - (d + 1), sum = d + l, t = sum - d, sum_rest = (d - (sum - t)) + (l - t);
  return sum + ((sum_rest + d_rest) + (h_rest + l_rest));
}
FLAMBEAU_INLINE Z log_of(Z z) {
  const double square = square_of(z), far = log_(square), near = log1p_(excess(z));
  return {0.5 * ((square > 0.5) & (square < 2) ? near : far), atan2_(z.im, z.re)};
}
FLAMBEAU_INLINE Z log1p_of(Z z) {  // |1 + z|^2 - 1 = x (2 + x) + y^2: no cancellation at small z
  const Z far = log_of({1 + z.re, z.im});
  const double near = 0.5 * log1p_(fma_(z.re, 2 + z.re, z.im * z.im));
  const double value = z.re == -1 ? log_(abs_(z.im)) : far.re;  // whose square may be too small for a double
  return {(abs_(z.re) < 0.5) & (abs_(z.im) < 0.5) ? near : value, far.im};
}
FLAMBEAU_INLINE Z sin_of(Z z) {
  const Z t = turn(z.re);
  return {t.im * cosh_(z.im), t.re * sinh_(z.im)};
}
FLAMBEAU_INLINE Z cos_of(Z z) {
  const Z t = turn(z.re);
  return {t.re * cosh_(z.im), -(t.im * sinh_(z.im))};
}
FLAMBEAU_INLINE Z sinc_of(Z z) {
  const Z y = scaled(z, kPi), value = quotient(sin_of(y), y);
  const bool zero = (z.re == 0) & (z.im == 0);
  return {zero ? 1 : value.re, zero ? 0 : value.im};
}
FLAMBEAU_INLINE Z sinh_of(Z z) {
  const Z t = turn(z.im);
  return {t.re * sinh_(z.re), t.im * cosh_(z.re)};
}
FLAMBEAU_INLINE Z cosh_of(Z z) {
  const Z t = turn(z.im);
  return {t.re * cosh_(z.re), t.im * sinh_(z.re)};
}
FLAMBEAU_INLINE Z tanh_of(Z z) {
  const Z t = turn(z.im);
  const double s = sinh_(z.re), by = 1 / fma_(s, s, t.re * t.re);
  return {s * cosh_(z.re) * by, t.im * t.re * by};
}
FLAMBEAU_INLINE Z tan_of(Z z) {
  const Z t = tanh_of({-z.im, z.re});
  return {t.im, -t.re};
}
FLAMBEAU_INLINE Z sigmoid_of(Z z) {
  const Z e = exp_of({-z.re, -z.im});
  return quotient({1, 0}, {1 + e.re, e.im});
}
FLAMBEAU_INLINE Z silu_of(Z z) {
  const Z e = exp_of({-z.re, -z.im});
  return quotient(z, {1 + e.re, e.im});
}
FLAMBEAU_INLINE Z sign_of(Z z) {
  const double square = square_of(z), by = 1 / std::sqrt(square == 0 ? 1. : square);
  return scaled(z, by);
}

// --- and the C library's
template <class T> inline T log_base(T a, double factor) {
  using R = typename T::value_type;
  T v = std::log(a);
  return T(v.real() * R(factor), v.imag() * R(factor));
}
template <class T> inline T sgn_any(T a) {
  const auto m = std::abs(a);
  return m == 0 ? T(0) : T(a.real() / m, a.imag() / m);
}
template <class T> inline T sinc_any(T a) {
  const T y = a * typename T::value_type(kPi);
  return a == T(0) ? T(1) : over(T(std::sin(y)), y);
}
template <class T> inline T pow_any(T x, T y) {
  if (y == T(0)) return T(1);
  if (x == T(0)) return y.imag() == 0 && y.real() > 0 ? T(0) : std::pow(x, y);
  return std::pow(x, y);
}

// x^y = e^(y log x); exponents that many programs use have their own loops.
template <class T>
__attribute__((flatten)) void pow_loop(char* const* p, const int64_t* s, int64_t n, const Scalar* k) {
  const T *x = reinterpret_cast<const T*>(p[1]), *y = reinterpret_cast<const T*>(p[2]);
  T* to = reinterpret_cast<T*>(p[0]);
  if (!s[2] && s[1]) {
    if (*y == T(2)) return run1<T, T>(p, n, [](T a) { return times(a, a); });
    if (*y == T(3)) return run1<T, T>(p, n, [](T a) { return times(times(a, a), a); });
    if (*y == T(1)) return run1<T, T>(p, n, [](T a) { return a; });
    if (*y == T(-1)) return run1<T, T>(p, n, [](T a) { return over(T(1), a); });
    auto by_root = [](T a) { return std::sqrt(a); };
    if (*y == T(0.5)) return planar_loop<root, decltype(by_root){}, kFinite, T>(p, s, n, k);
  }
  Planes base, power;
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t m = n - at < kPart ? n - at : kPart;
    const T *a = x + (s[1] ? at : 0), *b = y + (s[2] ? at : 0);
    base.take(a, s[1], m);
    power.take(b, s[2], m);
    Outside<T> others;
    auto slow = [&](int64_t i) { return pow_any(a[s[1] ? i : 0], b[s[2] ? i : 0]); };
    others.take(base, kFinite, m, slow);
    base.each(m, [](Z z) __attribute__((always_inline)) { return log_of(z); });
    for (int64_t i = 0; i < m; ++i) {
      const Z t = product({base.re[i], base.im[i]}, {power.re[i], power.im[i]});
      power.re[i] = t.re;
      power.im[i] = t.im;
    }
    others.take(power, kExp, m, slow);  // among others where the base is 0
    power.each(m, [](Z z) __attribute__((always_inline)) { return exp_of(z); });
    power.give(to + at, m);
    others.give(to + at);
  }
}

// Two real operands: a length and an angle.
template <class R>
__attribute__((flatten)) void polar_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  const R *length = reinterpret_cast<const R*>(p[1]), *angle = reinterpret_cast<const R*>(p[2]);
  std::complex<R>* to = reinterpret_cast<std::complex<R>*>(p[0]);
  Planes planes;
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t m = n - at < kPart ? n - at : kPart;
    const R *a = length + (s[1] ? at : 0), *b = angle + (s[2] ? at : 0);
    for (int64_t i = 0; i < m; ++i) planes.re[i] = double(s[1] ? a[i] : *a), planes.im[i] = double(s[2] ? b[i] : *b);
    Outside<std::complex<R>> others;
    others.take(planes, kTurns, m, [&](int64_t i) {
      const R r = s[1] ? a[i] : *a, t = s[2] ? b[i] : *b;
      return std::complex<R>(r * std::cos(t), r * std::sin(t));
    });
    planes.each(m, [](Z z) __attribute__((always_inline)) { return scaled(turn(z.im), z.re); });
    planes.give(to + at, m);
    others.give(to + at);
  }
}

inline constexpr double kLn2 = 0.693147180559945309417232, kLog2e = 1.442695040888963407359925,
                        kLog10e = 0.434294481903251827651129;

// long because: a table
static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      planar<magnitude, []<class T>(T a) { return std::abs(a); }, kFinite>("abs", 2),
      planar<sign_of, []<class T>(T a) { return sgn_any(a); }, kFinite>("sgn", 3),
      planar<root, []<class T>(T a) { return std::sqrt(a); }, kFinite>("sqrt", 4),
      planar<inverse_root, []<class T>(T a) { return over(T(1), T(std::sqrt(a))); },
             Range{kLarge, kLarge, 0x1p-240}>("rsqrt", 4),
      planar<exp_of, []<class T>(T a) { return std::exp(a); }, kExp>("exp"),
      planar<[](Z z) { return exp_of(scaled(z, kLn2)); },
             []<class T>(T a) {
               using R = typename T::value_type;
               return std::exp(T(a.real() * R(kLn2), a.imag() * R(kLn2)));
             },
             kExp>("exp2"),
      planar<expm1_of, []<class T>(T a) { return expm1_complex(a); }, kExp>("expm1"),
      planar<log_of, []<class T>(T a) { return std::log(a); }, kFinite>("log"),
      planar<[](Z z) { return scaled(log_of(z), kLog2e); }, []<class T>(T a) { return log_base(a, kLog2e); },
             kFinite>("log2"),
      planar<[](Z z) { return scaled(log_of(z), kLog10e); }, []<class T>(T a) { return log_base(a, kLog10e); },
             kFinite>("log10"),
      planar<log1p_of, []<class T>(T a) { return log1p_complex(a); }, Range{kLarge, kLarge, 0}>("log1p"),
      planar<sin_of, []<class T>(T a) { return std::sin(a); }, kTurned>("sin"),
      planar<cos_of, []<class T>(T a) { return std::cos(a); }, kTurned>("cos"),
      planar<sinc_of, []<class T>(T a) { return sinc_any(a); }, Range{trig_limit<double> / 8, 90, 0x1p-240}>("sinc"),
      planar<tan_of, []<class T>(T a) { return std::tan(a); }, kTurned>("tan"),
      planar<sinh_of, []<class T>(T a) { return std::sinh(a); }, kHyperbolic>("sinh"),
      planar<cosh_of, []<class T>(T a) { return std::cosh(a); }, kHyperbolic>("cosh"),
      planar<tanh_of, []<class T>(T a) { return std::tanh(a); }, kHyperbolic>("tanh"),
      planar<sigmoid_of, []<class T>(T a) { return over(T(1), T(1) + T(std::exp(-a))); }, kHyperbolic>("sigmoid"),
      planar<silu_of, []<class T>(T a) { return over(a, T(1) + T(std::exp(-a))); }, kHyperbolic>("silu"),
      from_loops<complex64, complex128>("pow", 2, {pow_loop<complex64>, pow_loop<complex128>}, 12),
      with_adapt(from_loops<float, double>("polar", 2, {polar_loop<float>, polar_loop<double>}, 4), complex_result),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

// Complex numbers: arithmetic without the repair of infinities, and the elementary functions.
template <class R> INLINE Complex<R> operator+(Complex<R> a, Complex<R> b) { return {a.re + b.re, a.im + b.im}; }
template <class R> INLINE Complex<R> operator-(Complex<R> a, Complex<R> b) { return {a.re - b.re, a.im - b.im}; }
template <class R> INLINE Complex<R> operator-(Complex<R> a) { return {-a.re, -a.im}; }
template <class R> INLINE Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class R> INLINE Complex<R> operator/(Complex<R> a, Complex<R> b) {  // Smith's: scaled by the larger part
  R c = b.re, d = b.im;
  if (fabs(c) >= fabs(d)) {
    if (c == 0 && d == 0) return {a.re / fabs(c), a.im / fabs(d)};
    R r = d / c, scale = R(1) / (c + d * r);
    return {(a.re + a.im * r) * scale, (a.im - a.re * r) * scale};
  }
  R r = c / d, scale = R(1) / (d + c * r);
  return {(a.re * r + a.im) * scale, (a.im * r - a.re) * scale};
}
template <class R> INLINE bool operator==(Complex<R> a, Complex<R> b) { return a.re == b.re && a.im == b.im; }
template <class R> INLINE bool operator!=(Complex<R> a, Complex<R> b) { return !(a == b); }

template <class T> INLINE T conjugate(T a) { return a; }
template <class R> INLINE Complex<R> conjugate(Complex<R> a) { return {a.re, -a.im}; }
template <class R> INLINE R absolute(Complex<R> a) { return hypot(a.re, a.im); }
template <class R> INLINE bool is_infinite(Complex<R> a) { return is_infinite(a.re) || is_infinite(a.im); }
template <class R> INLINE bool is_finite(Complex<R> a) { return is_finite(a.re) && is_finite(a.im); }
template <class R> INLINE Complex<R> sign(Complex<R> a) {
  R m = absolute(a);
  return m == 0 ? Complex<R>(0) : Complex<R>(a.re / m, a.im / m);
}
template <class T> INLINE T angle_(T a) { return a != a ? a : a < T(0) ? T(3.14159265358979323846) : T(0); }
template <class R> INLINE R angle_(Complex<R> a) { return atan2(a.im, a.re); }
template <class R> INLINE Complex<R> times_i(Complex<R> a) { return {-a.im, a.re}; }
template <class R> INLINE Complex<R> over_i(Complex<R> a) { return {a.im, -a.re}; }

template <class R> INLINE Complex<R> exp(Complex<R> z) {
  R m = exp(z.re);
  if (z.im == 0) return {m, z.im};
  if (m == 0 || (is_infinite(z.re) && !is_finite(z.im)))
    return z.re < 0 ? Complex<R>(copysign(R(0), cos(z.im)), copysign(R(0), sin(z.im))) : Complex<R>(m, z.im - z.im);
  return {m * cos(z.im), m * sin(z.im)};
}
template <class R> INLINE Complex<R> log(Complex<R> z) { return {log(hypot(z.re, z.im)), atan2(z.im, z.re)}; }
template <class R> INLINE Complex<R> scaled(Complex<R> z, R factor) { return {z.re * factor, z.im * factor}; }
template <class R> INLINE Complex<R> exp2(Complex<R> z) { return exp(scaled(z, R(0.693147180559945309417232))); }
template <class R> INLINE Complex<R> log2(Complex<R> z) { return scaled(log(z), R(1.442695040888963407359925)); }
template <class R> INLINE Complex<R> log10(Complex<R> z) { return scaled(log(z), R(0.434294481903251827651129)); }
template <class R> INLINE Complex<R> expm1(Complex<R> z) {
  R x = z.re, y = z.im, s = sin(y * R(0.5)), a = exp(x);
  if (is_infinite(x) && !is_finite(y)) return x < 0 ? Complex<R>(R(-1), R(0)) : Complex<R>(x, not_a_number<R>());
  return {expm1(x) * cos(y) - R(2) * s * s + R(0), y == 0 ? y : a * sin(y)};
}
template <class R> INLINE Complex<R> log1p(Complex<R> z) {  // |1 + z| through x (2 + x) + y^2
  R x = z.re, y = z.im, theta = atan2(y, x + R(1)), r2 = x * (R(2) + x) + y * y;
  if (fabs(x) < R(0.5) && fabs(y) < R(0.5)) return {R(0.5) * log1p(r2), theta};
  return {log(hypot(x + R(1), y)), theta};
}
template <class R> INLINE Complex<R> sqrt(Complex<R> z) {
  if (is_infinite(z.im)) return {infinity<R>(), z.im};
  if (is_infinite(z.re)) {
    R rest = z.im != z.im ? z.im : R(0);
    return z.re > 0 ? Complex<R>(z.re, z.im != z.im ? z.im : copysign(rest, z.im))
                    : Complex<R>(z.im != z.im ? z.im : R(0), copysign(z.re, z.im));
  }
  if (z.re == 0 && z.im == 0) return {R(0), z.im};
  R scale = larger(fabs(z.re), fabs(z.im)), x = z.re / scale, y = z.im / scale;
  R t = sqrt((fabs(x) + hypot(x, y)) * R(0.5)), grow = sqrt(scale);
  return x >= 0 ? Complex<R>(t * grow, y / (R(2) * t) * grow)
                : Complex<R>(fabs(y) / (R(2) * t) * grow, copysign(t, y) * grow);
}
template <class R> INLINE Complex<R> rsqrt(Complex<R> z) { return Complex<R>(1) / sqrt(z); }
template <class R> INLINE Complex<R> sinh(Complex<R> z) { return {sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im)}; }
template <class R> INLINE Complex<R> cosh(Complex<R> z) { return {cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im)}; }
// tanh(x + iy) = (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y); beyond 20 the real part is 1
template <class R> INLINE Complex<R> tanh(Complex<R> z) {
  if (is_infinite(z.re) || fabs(z.re) > R(40))
    return {copysign(R(1), z.re), is_finite(z.im) ? R(4) * sin(z.im) * cos(z.im) * exp(R(-2) * fabs(z.re))
                                                  : copysign(R(0), z.im)};
  R s = sinh(z.re), c = cos(z.im), d = s * s + c * c;
  return {s * cosh(z.re) / d, sin(z.im) * c / d};
}
template <class R> INLINE Complex<R> sin(Complex<R> z) { return over_i(sinh(times_i(z))); }
template <class R> INLINE Complex<R> cos(Complex<R> z) { return cosh(times_i(z)); }
template <class R> INLINE Complex<R> tan(Complex<R> z) { return over_i(tanh(times_i(z))); }
// The inverses by W. Kahan's formulas (1987): branch cuts and signed zeros fall into place.
template <class R> INLINE Complex<R> asinh(Complex<R> z) {
  Complex<R> u = sqrt(Complex<R>(R(1) - z.im, z.re)), v = sqrt(Complex<R>(R(1) + z.im, -z.re));
  return {asinh(u.im * v.re - u.re * v.im), atan2(z.im, u.re * v.re - u.im * v.im)};
}
template <class R> INLINE Complex<R> asin(Complex<R> z) { return over_i(asinh(times_i(z))); }
template <class R> INLINE Complex<R> acos(Complex<R> z) {
  Complex<R> u = sqrt(Complex<R>(R(1) - z.re, -z.im)), v = sqrt(Complex<R>(R(1) + z.re, z.im));
  return {R(2) * atan2(u.re, v.re), asinh(v.re * u.im - v.im * u.re)};
}
template <class R> INLINE Complex<R> acosh(Complex<R> z) {
  Complex<R> u = sqrt(Complex<R>(z.re - R(1), z.im)), v = sqrt(Complex<R>(z.re + R(1), z.im));
  return {asinh(u.re * v.re + u.im * v.im), R(2) * atan2(u.im, v.re)};
}
template <class R> INLINE Complex<R> atanh(Complex<R> z) {
  R x = z.re, y = z.im, d = (R(1) - x) * (R(1) - x) + y * y;
  R re = R(0.25) * log1p(R(4) * x / d), im = R(0.5) * atan2(R(2) * y, (R(1) - x) * (R(1) + x) - y * y);
  return {fabs(x) < R(1e-3) || x > 0 ? re : R(-0.25) * log1p(R(-4) * x / ((R(1) + x) * (R(1) + x) + y * y)), im};
}
template <class R> INLINE Complex<R> atan(Complex<R> z) { return over_i(atanh(times_i(z))); }
template <class R> INLINE Complex<R> lerp_(Complex<R> a, Complex<R> b, Complex<R> w) {
  return absolute(w) < R(0.5) ? a + w * (b - a) : b - (b - a) * (Complex<R>(1) - w);
}
template <class R> INLINE Complex<R> power(Complex<R> x, Complex<R> y) {
  if (y == Complex<R>(2)) return x * x;
  if (y == Complex<R>(0)) return Complex<R>(1);
  if (y == Complex<R>(1)) return x;
  if (x == Complex<R>(0) && y.im == 0 && y.re > 0) return Complex<R>(0);
  return exp(y * log(x));
}
template <class R> INLINE Complex<R> logaddexp_(Complex<R> a, Complex<R> b) {
  if (a != a || b != b) return {not_a_number<R>(), not_a_number<R>()};
  Complex<R> high = a.re < b.re ? b : a, low = a.re < b.re ? a : b;
  if (is_infinite(high.re) && low.re == high.re) return high.re > 0 ? log(exp(low) + exp(high)) : high;
  if (low.re == -infinity<R>()) return high;
  return high + log1p(exp(low - high));
}
template <class R> INLINE Complex<R> fix(Complex<R> a, Complex<R> no, Complex<R> high, Complex<R> low) {
  return {fix(a.re, no.re, high.re, low.re), fix(a.im, no.re, high.re, low.re)};
}
template <class R> INLINE Complex<R> sinc_(Complex<R> a) {
  Complex<R> y = scaled(a, R(3.14159265358979323846));
  return a == Complex<R>(0) ? Complex<R>(1) : sin(y) / y;
}

// Complex loops, from the formulas of the parts where those are as accurate, from the C library elsewhere. Baseline
// only.
#include "loops.h"

#if FLAMBEAU_LEVEL == 0

#include <complex>

namespace flambeau::FLAMBEAU_SIMD {

#define FLAMBEAU_COMPLEX complex64, complex128

template <class T> inline T times(T a, T b) {  // without the C standard's repair of infinities
  return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
}
// Smith's scaling: the larger part of the divisor divides the smaller.
template <class T> inline T over(T a, T b) {
  using R = typename T::value_type;
  R c = b.real(), d = b.imag();
  if (abs_(c) >= abs_(d)) {
    if (c == 0 && d == 0) return T(a.real() / abs_(c), a.imag() / abs_(d));
    R r = d / c, scale = R(1) / (c + d * r);
    return T((a.real() + a.imag() * r) * scale, (a.imag() - a.real() * r) * scale);
  }
  R r = c / d, scale = R(1) / (d + c * r);
  return T((a.real() * r + a.imag()) * scale, (a.imag() * r - a.real()) * scale);
}
template <class T> inline T reciprocal_(T a) { return over(T(1), a); }
template <class T> inline T log_base(T a, double factor) {
  using R = typename T::value_type;
  T v = std::log(a);
  return T(v.real() * R(factor), v.imag() * R(factor));
}
template <class T> inline T log1p_complex(T z) {  // |1 + z| through x (2 + x) + y^2: no cancellation at small z
  using R = typename T::value_type;
  R x = z.real(), y = z.imag(), theta = std::atan2(y, x + R(1)), r2 = x * (R(2) + x) + y * y;
  if (abs_(x) < R(0.5) && abs_(y) < R(0.5)) return T(R(0.5) * std::log1p(r2), theta);
  return T(std::log(std::hypot(x + R(1), y)), theta);
}
// log(exp(a) + exp(b)) around the operand of the larger real part
template <class T> inline T logaddexp_complex(T a, T b) {
  using R = typename T::value_type;
  if (a.real() != a.real() || a.imag() != a.imag() || b.real() != b.real() || b.imag() != b.imag())
    return T(nan<R>, nan<R>);
  T high = a.real() < b.real() ? b : a, low = a.real() < b.real() ? a : b;
  if (abs_(high.real()) == inf<R> && low.real() == high.real())
    return high.real() > 0 ? std::log(std::exp(low) + std::exp(high)) : high;
  if (low.real() == -inf<R>) return high;
  return high + log1p_complex(T(std::exp(low - high)));
}
template <class T> inline T expm1_complex(T z) {
  using R = typename T::value_type;
  R x = z.real(), y = z.imag(), s = std::sin(y * R(0.5)), a = std::exp(x);
  if (abs_(x) == inf<R> && !(abs_(y) < inf<R>)) return x < 0 ? T(R(-1), R(0)) : T(x, nan<R>);  // the angle is unknown
  // an imaginary part of 0 stays one; the sum with 0 makes a real part of -0 the +0 that exp(0) - 1 is
  return T(std::expm1(x) * std::cos(y) - R(2) * s * s + R(0), y == 0 ? y : a * std::sin(y));
}
template <class T> inline T pow_complex(T x, T y) {
  if (y == T(2)) return times(x, x);
  if (y == T(0)) return T(1);
  if (y == T(1)) return x;
  if (x == T(0)) return y.imag() == 0 && y.real() > 0 ? T(0) : std::pow(x, y);
  return std::pow(x, y);
}
inline complex128 sgn_(complex128 a) {
  const double m = std::abs(a);
  return m == 0 ? 0 : complex128(a.real() / m, a.imag() / m);
}
inline complex64 sgn_(complex64 a) {  // in double no square overflows
  const double x = a.real(), y = a.imag(), square = x * x + y * y, m = std::sqrt(square == 0 ? 1. : square);
  return complex64(float(x / m), float(y / m));
}
template <class T> inline T sinc_(T a) {
  using R = typename T::value_type;
  T y = a * R(3.14159265358979323846);
  return a == T(0) ? T(1) : over(T(std::sin(y)), y);
}
template <class R> inline bool finite(R a) { return abs_(a) < inf<R>; }

// Pairs of words, as where_loop moves one.
template <class T> void where_complex(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  const bool* c = reinterpret_cast<const bool*>(p[1]);
  const T *a = reinterpret_cast<const T*>(p[2]), *b = reinterpret_cast<const T*>(p[3]);
  T* o = reinterpret_cast<T*>(p[0]);
  const int64_t x = s[1] ? 1 : 0, y = s[2] ? 1 : 0, z = s[3] ? 1 : 0;
  for (int64_t i = 0; i < n; ++i) o[i] = c[i * x] ? a[i * y] : b[i * z];
}
template <class T> void masked_fill_complex(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  char* q[4] = {p[0], p[2], p[3], p[1]};
  const int64_t stride[4] = {s[0], s[2], s[3], s[1]};
  where_complex<T>(q, stride, n, nullptr);
}
// Two real operands, a complex result.
template <class R> void complex_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  run2<std::complex<R>, R, R>(p, s, n, [](R a, R b) { return std::complex<R>(a, b); });
}
template <class R> void polar_loop(char* const* p, const int64_t* s, int64_t n, const Scalar*) {
  run2<std::complex<R>, R, R>(p, s, n, [](R a, R b) { return std::complex<R>(a * std::cos(b), a * std::sin(b)); });
}
void complex_result(const Call& c, DType& compute, DType& result) {
  if (c.args[0].tag == Tag::Tensor && c.args[1].tag == Tag::Tensor && c.tensor(0).dtype != c.tensor(1).dtype)
    runtime_error(c.name(), ": both parts must have one dtype, got ", dtype_name(c.tensor(0).dtype), " and ",
                  dtype_name(c.tensor(1).dtype));
  if (compute != DType::Float32 && compute != DType::Float64 && compute != DType::Float16)
    runtime_error(c.name(), ": both parts must be float16, float32 or float64, got ", dtype_name(compute));
  result = complex_of(compute);
  if (c.given && c.given->dtype != result)
    runtime_error(c.name(), ": out= must be ", dtype_name(result), ", as the result, got ", dtype_name(c.given->dtype));
}
template <class T> void nan_to_num_loop(char* const* p, const int64_t*, int64_t n, const Scalar* s) {
  using R = typename T::value_type;
  R no = absent(s[0]) ? R(0) : number<R>(s[0]);
  R high = absent(s[1]) ? std::numeric_limits<R>::max() : number<R>(s[1]);
  R low = absent(s[2]) ? std::numeric_limits<R>::lowest() : number<R>(s[2]);
  auto fix = [=](R a) { return a != a ? no : a == inf<R> ? high : a == -inf<R> ? low : a; };
  run1<T, T>(p, n, [=](T a) { return T(fix(a.real()), fix(a.imag())); });
}

// long because: a table
static const ElementwiseRows arithmetic(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary_n<[]<class T>(T a, T b, T alpha) { return a + times(alpha, b); }, 1, FLAMBEAU_COMPLEX>("add"),
      binary_n<[]<class T>(T a, T b, T alpha) { return a - times(alpha, b); }, 1, FLAMBEAU_COMPLEX>("sub"),
      binary_n<[]<class T>(T a, T b, T alpha) { return b - times(alpha, a); }, 1, FLAMBEAU_COMPLEX>("rsub"),
      binary<[]<class T>(T a, T b) { return times(a, b); }, FLAMBEAU_COMPLEX>("mul"),
      binary<[]<class T>(T a, T b) { return over(a, b); }, FLAMBEAU_COMPLEX>("div", 2),
      binary<[]<class T>(T a, T b) { return times(a, std::conj(b)); }, FLAMBEAU_COMPLEX>("_mul_conj"),
      binary<[]<class T>(T a, T b) { return over(a, std::conj(b)); }, FLAMBEAU_COMPLEX>("_div_conj", 2),
      unary<[]<class T>(T) { return T(0); }, FLAMBEAU_COMPLEX>("_zero"),
      unary<[]<class T>(T a) { return std::conj(a); }, FLAMBEAU_COMPLEX>("_conj_physical"),
      binary<[]<class T>(T a, T b) { return logaddexp_complex(a, b); }, FLAMBEAU_COMPLEX>("logaddexp", 32),
      binary<[]<class T>(T a, T b) { return pow_complex(a, b); }, FLAMBEAU_COMPLEX>("pow", 32),
      ternary_n<[]<class T>(T a, T b, T c, T value) { return a + times(value, times(b, c)); }, 1, FLAMBEAU_COMPLEX>(
          "addcmul"),
      ternary_n<[]<class T>(T a, T b, T c, T value) { return a + times(value, over(b, c)); }, 1, FLAMBEAU_COMPLEX>(
          "addcdiv"),
      ternary<[]<class T>(T a, T b, T w) {
        return std::abs(w) < 0.5 ? a + times(w, b - a) : b - times(b - a, T(1) - w);
      },
              FLAMBEAU_COMPLEX>("lerp", 4),
      unary<[]<class T>(T a) { return T(-a.real(), -a.imag()); }, FLAMBEAU_COMPLEX>("neg"),
      unary<[]<class T>(T a) { return std::abs(a); }, FLAMBEAU_COMPLEX>("abs", 4),
      unary<[]<class T>(T a) { return typename T::value_type(atan2_(double(a.imag()), double(a.real()))); },
            FLAMBEAU_COMPLEX>("angle", 8),
      unary<[]<class T>(T a) { return sgn_(a); }, FLAMBEAU_COMPLEX>("sgn", 4),
      unary<[]<class T>(T a) { return times(a, a); }, FLAMBEAU_COMPLEX>("square"),
      unary<[]<class T>(T a) { return reciprocal_(a); }, FLAMBEAU_COMPLEX>("reciprocal", 2),
      binary<[]<class T>(T a, T b) { return a == b; }, FLAMBEAU_COMPLEX>("eq"),
      binary<[]<class T>(T a, T b) { return a != b; }, FLAMBEAU_COMPLEX>("ne"),
      unary<[]<class T>(T a) { return a != a; }, FLAMBEAU_COMPLEX>("isnan"),
      unary<[]<class T>(T a) { return finite(a.real()) && finite(a.imag()); }, FLAMBEAU_COMPLEX>("isfinite"),
      unary<[]<class T>(T a) {
        using R = typename T::value_type;
        return abs_(a.real()) == inf<R> || abs_(a.imag()) == inf<R>;
      },
            FLAMBEAU_COMPLEX>("isinf"),
      from_loops<FLAMBEAU_COMPLEX>("nan_to_num", 1, {nan_to_num_loop<complex64>, nan_to_num_loop<complex128>}),
      any_stride(from_loops<FLAMBEAU_COMPLEX>("where", 3, {where_complex<complex64>, where_complex<complex128>}), 1),
      any_stride(from_loops<FLAMBEAU_COMPLEX>("masked_fill", 3,
                                              {masked_fill_complex<complex64>, masked_fill_complex<complex128>}),
                 2),
      with_adapt(from_loops<float, double>("complex", 2, {complex_loop<float>, complex_loop<double>}), complex_result),
      with_adapt(from_loops<float, double>("polar", 2, {polar_loop<float>, polar_loop<double>}, 8), complex_result),
  });
});

static const ElementwiseRows functions(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      unary<[]<class T>(T a) { return std::sqrt(a); }, FLAMBEAU_COMPLEX>("sqrt", 16),
      unary<[]<class T>(T a) { return reciprocal_(T(std::sqrt(a))); }, FLAMBEAU_COMPLEX>("rsqrt", 16),
      unary<[]<class T>(T a) { return std::exp(a); }, FLAMBEAU_COMPLEX>("exp", 16),
      unary<[]<class T>(T a) {
        return std::exp(T(a.real() * typename T::value_type(0.693147180559945309417232),
                          a.imag() * typename T::value_type(0.693147180559945309417232)));
      },
            FLAMBEAU_COMPLEX>("exp2", 16),
      unary<[]<class T>(T a) { return expm1_complex(a); }, FLAMBEAU_COMPLEX>("expm1", 16),
      unary<[]<class T>(T a) { return std::log(a); }, FLAMBEAU_COMPLEX>("log", 16),
      unary<[]<class T>(T a) { return log_base(a, 1.442695040888963407359925); }, FLAMBEAU_COMPLEX>("log2", 16),
      unary<[]<class T>(T a) { return log_base(a, 0.434294481903251827651129); }, FLAMBEAU_COMPLEX>("log10", 16),
      unary<[]<class T>(T a) { return log1p_complex(a); }, FLAMBEAU_COMPLEX>("log1p", 16),
      unary<[]<class T>(T a) { return std::sin(a); }, FLAMBEAU_COMPLEX>("sin", 16),
      unary<[]<class T>(T a) { return std::cos(a); }, FLAMBEAU_COMPLEX>("cos", 16),
      unary<[]<class T>(T a) { return std::tan(a); }, FLAMBEAU_COMPLEX>("tan", 16),
      unary<[]<class T>(T a) { return std::asin(a); }, FLAMBEAU_COMPLEX>("asin", 16),
      unary<[]<class T>(T a) { return std::acos(a); }, FLAMBEAU_COMPLEX>("acos", 16),
      unary<[]<class T>(T a) { return std::atan(a); }, FLAMBEAU_COMPLEX>("atan", 16),
      unary<[]<class T>(T a) { return std::sinh(a); }, FLAMBEAU_COMPLEX>("sinh", 16),
      unary<[]<class T>(T a) { return std::cosh(a); }, FLAMBEAU_COMPLEX>("cosh", 16),
      unary<[]<class T>(T a) { return std::tanh(a); }, FLAMBEAU_COMPLEX>("tanh", 16),
      unary<[]<class T>(T a) { return std::asinh(a); }, FLAMBEAU_COMPLEX>("asinh", 16),
      unary<[]<class T>(T a) { return std::acosh(a); }, FLAMBEAU_COMPLEX>("acosh", 16),
      unary<[]<class T>(T a) { return std::atanh(a); }, FLAMBEAU_COMPLEX>("atanh", 16),
      unary<[]<class T>(T a) { return reciprocal_(T(1) + T(std::exp(-a))); }, FLAMBEAU_COMPLEX>("sigmoid", 16),
      unary<[]<class T>(T a) { return over(a, T(1) + T(std::exp(-a))); }, FLAMBEAU_COMPLEX>("silu", 16),
      unary<[]<class T>(T a) { return sinc_(a); }, FLAMBEAU_COMPLEX>("sinc", 16),
      binary<[]<class T>(T g, T y) { return times(g, std::conj(times(T(1) - y, y))); }, FLAMBEAU_COMPLEX>(
          "sigmoid_backward"),
      binary<[]<class T>(T g, T y) { return times(g, std::conj(T(1) - times(y, y))); }, FLAMBEAU_COMPLEX>(
          "tanh_backward"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD
#endif

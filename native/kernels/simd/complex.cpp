// Arithmetic and selection of complex numbers, and their inverse trigonometric functions, which are the C library's.
#include "complex_parts.h"

namespace flambeau::FLAMBEAU_SIMD {

#define FLAMBEAU_COMPLEX complex64, complex128

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
template <class T> void nan_to_num_loop(char* const* p, const int64_t*, int64_t n, const Scalar* s) {
  using R = typename T::value_type;
  R no = absent(s[0]) ? R(0) : number<R>(s[0]);
  R high = absent(s[1]) ? std::numeric_limits<R>::max() : number<R>(s[1]);
  R low = absent(s[2]) ? std::numeric_limits<R>::lowest() : number<R>(s[2]);
  auto fix = [=](R a) { return a != a ? no : a == inf<R> ? high : a == -inf<R> ? low : a; };
  run1<R, R>(p, 2 * n, fix);
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
      unary<[]<class T>(T a) { return T(a.real(), -a.imag()); }, FLAMBEAU_COMPLEX>("_conj_physical"),
      binary<[]<class T>(T a, T b) { return logaddexp_complex(a, b); }, FLAMBEAU_COMPLEX>("logaddexp", 32),
      ternary_n<[]<class T>(T a, T b, T c, T value) { return a + times(value, times(b, c)); }, 1, FLAMBEAU_COMPLEX>(
          "addcmul"),
      ternary_n<[]<class T>(T a, T b, T c, T value) { return a + times(value, over(b, c)); }, 1, FLAMBEAU_COMPLEX>(
          "addcdiv"),
      ternary<[]<class T>(T a, T b, T w) {
        const bool light = w.real() * w.real() + w.imag() * w.imag() < typename T::value_type(0.25);
        const T near = a + times(w, b - a), far = b - times(b - a, T(1) - w);
        return T(light ? near.real() : far.real(), light ? near.imag() : far.imag());
      },
              FLAMBEAU_COMPLEX>("lerp", 4),
      unary<[]<class T>(T a) { return T(-a.real(), -a.imag()); }, FLAMBEAU_COMPLEX>("neg"),
      unary<[]<class T>(T a) { return atan2_(a.imag(), a.real()); }, FLAMBEAU_COMPLEX>("angle", 4),
      unary<[]<class T>(T a) { return times(a, a); }, FLAMBEAU_COMPLEX>("square"),
      unary<[]<class T>(T a) { return over(T(1), a); }, FLAMBEAU_COMPLEX>("reciprocal", 2),
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
      any_stride(from_loops<FLAMBEAU_COMPLEX>("where", 3, {where_loop<uint64_t>, where_complex<complex128>}), 1),
      any_stride(from_loops<FLAMBEAU_COMPLEX>("masked_fill", 3,
                                              {masked_fill_loop<uint64_t>, masked_fill_complex<complex128>}),
                 2),
      with_adapt(from_loops<float, double>("complex", 2, {complex_loop<float>, complex_loop<double>}), complex_result),
  });
});

static const ElementwiseRows functions(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      unary<[]<class T>(T a) { return std::asin(a); }, FLAMBEAU_COMPLEX>("asin", 16),
      unary<[]<class T>(T a) { return std::acos(a); }, FLAMBEAU_COMPLEX>("acos", 16),
      unary<[]<class T>(T a) { return std::atan(a); }, FLAMBEAU_COMPLEX>("atan", 16),
      unary<[]<class T>(T a) { return std::asinh(a); }, FLAMBEAU_COMPLEX>("asinh", 16),
      unary<[]<class T>(T a) { return std::acosh(a); }, FLAMBEAU_COMPLEX>("acosh", 16),
      unary<[]<class T>(T a) { return std::atanh(a); }, FLAMBEAU_COMPLEX>("atanh", 16),
      binary<[]<class T>(T g, T y) { return times(g, std::conj(times(T(1) - y, y))); }, FLAMBEAU_COMPLEX>(
          "sigmoid_backward"),
      binary<[]<class T>(T g, T y) { return times(g, std::conj(T(1) - times(y, y))); }, FLAMBEAU_COMPLEX>(
          "tanh_backward"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

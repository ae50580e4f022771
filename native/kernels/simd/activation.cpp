// Activation functions of the floating types.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

template <class T> inline constexpr T kSeluAlpha = T(1.6732632423543772848170429916717);
template <class T> inline constexpr T kSeluScale = T(1.0507009873554804934193349852946);
template <class T> inline constexpr T kRootHalf = T(0.70710678118654752440);
template <class T> inline constexpr T kGeluA = T(0.79788456080286535588);
template <class T> inline constexpr T kGeluB = T(0.044715);

inline double gelu_erf(double x) { return 0.5 * x * (1 + erf_(x * kRootHalf<double>)); }
// erf(x / sqrt(2)) = x P(x^2) / Q(x^2) up to 5.52, where it rounds to 1; below -5.52 the result is 0 to 2e-7.
inline float gelu_erf(float x) {
  float y = x < -5.52f ? -5.52f : x, c = 5.52f < y ? 5.52f : y, z = c * c;
  float p = horner(z, 0.7978845756f, 0.0649477942f, 0.009620988228f, 0.0003383339645f, 1.731278788e-05f,
                   1.114629724e-07f, -1.651713802e-10f);
  float q = horner(z, 1.f, 0.2480668471f, 0.02840217732f, 0.001932669167f, 8.246261919e-05f, 2.078503039e-06f);
  float half = 0.5f * y;
  return fma_(half, c * p / q, half);
}
template <class T> inline T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + tanh_(kGeluA<T> * (x + kGeluB<T> * x * x * x)));
}
template <class T> void gelu_loop(char* const* p, const int64_t*, int64_t n, const Scalar* s) {
  if (s[0].i == 't') run1<T, T>(p, n, [](T x) { return gelu_tanh(x); });
  else run1<T, T>(p, n, [](T x) { return gelu_erf(x); });
}
void erfinv_doubles(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  constexpr int64_t kSide = 64;
  double* out = reinterpret_cast<double*>(p[0]);
  const double* x = reinterpret_cast<const double*>(p[1]);
  for (; n > 0; n -= kSide, x += kSide, out += kSide) {
    const int64_t count = n < kSide ? n : kSide;
    double c[kSide] = {};
    for (int64_t k = 0; k < count; ++k) c[k] = (1 - abs_(x[k])) * (1 + abs_(x[k]));
    for (int64_t k = count; k < kSide; ++k) c[k] = 1;
    erfinv_ratios(c, kSide);
    for (int64_t k = 0; k < count; ++k) out[k] = erfinv_times(x[k], c[k]);
  }
}
template <class T> inline T softplus_(T x, T beta, T threshold) {
  return threshold < x * beta ? x : log1p_(exp_(x * beta)) / beta;
}
template <class T> inline T mish_(T x) {  // x tanh(log(1 + e)) with e = exp(x): rational in e
  T e = exp_normal(x), m = e * (e + T(2));
  return T(20) < x ? x : x * (m / (m + T(2)));
}
template <class T> inline T elu_(T x, T alpha, T scale, T input_scale) {
  return x <= 0 ? alpha * scale * expm1_(x * input_scale) : x * scale;  // NaN passes through x * scale
}
template <class T> inline T log_sigmoid(T x) { return (x < 0 ? x : T(0)) - log1p_(exp_(-abs_(x))); }
template <class T> inline T clip(T x, T low, T high) { return x < low ? low : high < x ? high : x; }

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      unary<[]<class T>(T a) { return sigmoid_(a); }, float, double>("sigmoid", 2),
      unary<[]<class T>(T a) { return a / (T(1) + exp_normal(-a)); }, float, double>("silu", 2),
      binary<[]<class T>(T a, T gate) { return a / (T(1) + exp_normal(-gate)); }, float, double>("_gated", 2),
      binary<[]<class T>(T a, T slope) { return T(0) < a ? a : slope * a; }, float, double>("_leaky"),
      unary<[]<class T>(T a) { return a < T(0) ? T(0) : a; }, float, double>("relu"),
      unary<[]<class T>(T a) { return clip(a, T(0), T(6)); }, float, double, bfloat16>("relu6"),
      from_loops<float, double>("gelu", 1, {gelu_loop<float>, gelu_loop<double>}, 4),
      unary_n<[]<class T>(T a, T beta, T limit) { return softplus_(a, beta, limit); }, 2, float, double>("softplus", 4),
      unary_n<[]<class T>(T a, T alpha) { return elu_(a, alpha, T(1), T(1)); }, 1, float, double>("elu", 2),
      unary<[]<class T>(T a) { return elu_(a, kSeluAlpha<T>, kSeluScale<T>, T(1)); }, float, double>("selu", 2),
      unary_n<[]<class T>(T a, T alpha) { return elu_(a, alpha, T(1), T(1) / alpha); }, 1, float, double>("celu", 2),
      unary_n<[]<class T>(T a, T slope) { return T(0) < a ? a : a * slope; }, 1, float, double>("leaky_relu"),
      unary<[]<class T>(T a) { return clip(a + T(3), T(0), T(6)) / T(6); }, float, double>("hardsigmoid"),
      unary<[]<class T>(T a) { return a * clip(a + T(3), T(0), T(6)) / T(6); }, float, double>("hardswish"),
      unary<[]<class T>(T a) { return mish_(a); }, float, double>("mish", 2),
      unary<[]<class T>(T a) { return log_sigmoid(a); }, float, double>("logsigmoid", 4),
      unary_n<[]<class T>(T a, T limit, T value) { return a <= limit ? value : a; }, 2, float, double>("threshold"),
      unary_n<[]<class T>(T a, T l) { return -l <= a && a <= l ? T(0) : a; }, 1, float, double>("hardshrink"),
      unary_n<[]<class T>(T a, T l) { return l < a    ? a - l
                                             : a < -l ? a + l
                                                      : a * T(0); }, 1, float, double>(
          "softshrink"),
      unary<[]<class T>(T a) { return erfc_(a); }, float, double>("erfc", 4),
      from_loops<float, double>("erfinv", 1, {loop1<[](float a) { return erfinv_(a); }, 0, float>, erfinv_doubles}, 4),
      unary<[]<class T>(T a) { return T(lgamma_(double(a))); }, float, double>("lgamma", 8),
      unary<[]<class T>(T a) { return T(digamma_(double(a))); }, float, double>("digamma", 8),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

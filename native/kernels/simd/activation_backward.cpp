// Derivatives of activation functions in one pass: (gradient, saved input or result) -> gradient of the input.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

template <class T> FLAMBEAU_INLINE T gelu_erf_slope(T x) {
  T half = T(0.5) * (T(1) + erf_quick(x * T(0.70710678118654752440)));
  return half + x * T(0.39894228040143267794) * exp_normal(T(-0.5) * x * x);
}
template <class T> inline T gelu_tanh_slope(T x) {
  constexpr T a = T(0.79788456080286535588), b = T(0.044715);
  T t = tanh_(a * (x + b * x * x * x));
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * a * (T(1) + T(3) * b * x * x);
}
template <class T> void gelu_backward_loop(char* const* p, const int64_t* stride, int64_t n, const Scalar* s) {
  if (s[0].i == 't') run2<T, T, T>(p, stride, n, [](T g, T x) { return g * gelu_tanh_slope(x); });
  else run2<T, T, T>(p, stride, n, [](T g, T x) __attribute__((always_inline)) { return g * gelu_erf_slope(x); });
}
template <class T> inline T silu_slope(T x) {
  T s = sigmoid_(x);
  return s * (T(1) + x * (T(1) - s));
}
template <class T> inline T mish_slope(T x) {
  T e = exp_normal(x), m = e * (e + T(2)), t = T(20) < x ? T(1) : m / (m + T(2));
  return t + x * sigmoid_(x) * (T(1) - t * t);
}
template <class T>
inline T softplus_slope(T x, T beta, T limit) {
  return limit < x * beta ? T(1) : sigmoid_(x * beta);
}
template <class T> inline T inside(T g, T x, T low, T high) { return x <= low || high <= x ? T(0) : g; }

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary<[]<class T>(T g, T y) { return g * (T(1) - y) * y; }, float, double>("sigmoid_backward"),
      binary<[]<class T>(T g, T y) { return g * (T(1) - y * y); }, float, double>("tanh_backward"),
      binary<[]<class T>(T g, T x) { return g * silu_slope(x); }, float, double>("silu_backward", 2),
      binary<[]<class T>(T g, T x) { return g * mish_slope(x); }, float, double>("mish_backward", 4),
      from_loops<float, double>("gelu_backward", 2, {gelu_backward_loop<float>, gelu_backward_loop<double>}, 4),
      binary_n<[]<class T>(T g, T x, T limit) { return x <= limit ? T(0) : g; }, 1, float, double>(
          "threshold_backward"),
      binary_n<[]<class T>(T g, T x, T slope) { return T(0) < x ? g : g * slope; }, 1, float, double>(
          "leaky_relu_backward"),
      binary_n<[]<class T>(T g, T x, T low, T high) { return inside(g, x, low, high); }, 2, float, double>(
          "hardtanh_backward"),
      binary<[]<class T>(T g, T x) { return T(-3) < x && x < T(3) ? g * T(1.0 / 6.0) : T(0); }, float, double>(
          "hardsigmoid_backward"),
      binary<[]<class T>(T g, T x) { return x <= T(-3) ? T(0)
                                            : x < T(3) ? g * (x / T(3) + T(0.5))
                                                       : g; }, float,
             double>("hardswish_backward"),
      // scale * (x > 0 ? 1 : alpha * input_scale * exp(input_scale x)), from the input
      binary_n<[]<class T>(T g, T x, T alpha, T scale, T input_scale) {
        return x <= 0 ? g * alpha * scale * input_scale * exp_(x * input_scale) : g * scale;
      },
               3, float, double>("elu_backward", 2),
      binary_n<[]<class T>(T g, T x, T beta, T limit) { return g * softplus_slope(x, beta, limit); }, 2, float, double>(
          "softplus_backward", 2),
      binary<[]<class T>(T g, T x) { return g / (T(1) + exp_normal(x)); }, float, double>("logsigmoid_backward", 2),
      binary_n<[]<class T>(T g, T x, T l) { return -l <= x && x <= l ? T(0) : g; }, 1, float, double>(
          "shrink_backward"),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

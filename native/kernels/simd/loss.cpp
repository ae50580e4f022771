// Losses of one prediction and one target, element by element; their means and sums are reductions like any other.
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

template <class T> inline T smooth_l1(T x, T y, T beta) {
  T d = abs_(x - y);
  return d < beta ? d * d * (T(0.5) / beta) : d - T(0.5) * beta;
}
template <class T> inline T huber(T x, T y, T delta) {
  T d = abs_(x - y);
  return delta < d ? (d - T(0.5) * delta) * delta : T(0.5) * d * d;
}
// The logarithms at least -100.
template <class T> inline T cross_entropy(T x, T t) {
  T hit = log_(x), miss = log1p_(-x);
  return (t - T(1)) * (miss < T(-100) ? T(-100) : miss) - t * (hit < T(-100) ? T(-100) : hit);
}
template <class T> void bce_loop(char* const* p, const int64_t* stride, int64_t n, const Scalar*) {
  const T* x = reinterpret_cast<const T*>(p[1]);
  if (!all_of<T>(stride[1] ? n : 1, [&](int64_t i) { return (x[i] >= 0) & (x[i] <= 1); })) not_probabilities();
  run2<T, T, T>(p, stride, n, [](T a, T t) { return cross_entropy(a, t); });
}

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({
      binary<[](auto x, auto y) { return (x - y) * (x - y); }, float, double>("_squared_difference"),
      binary<[](auto x, auto y) { return abs_(x - y); }, float, double>("_absolute_difference"),
      binary_n<[](auto x, auto y, auto beta) { return smooth_l1(x, y, beta); }, 1, float, double>("_smooth_l1"),
      binary_n<[](auto x, auto y, auto delta) { return huber(x, y, delta); }, 1, float, double>("_huber"),
      from_loops<float, double>("_bce", 2, {bce_loop<float>, bce_loop<double>}, 8),
      binary<[]<class T>(T x, T t) { return (x < T(0) ? T(0) : x) - x * t + log1p_(exp_normal(-abs_(x))); }, float,
             double>("_bce_with_logits", 4),
  });
});

}  // namespace flambeau::FLAMBEAU_SIMD

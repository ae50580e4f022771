// The arithmetic of each optimizer, written once over vectors of float or double.
//
// The order of roundings is PyTorch's: x.lerp_(g, w) and x.add_(g, alpha=w) are one fused multiply-add, addcmul rounds
// value * g first, addcdiv divides the rounded value * m. The file is compiled with contraction off, so that exactly
// the fused operations written here are fused, whatever the instruction set.
#include <cmath>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "../elementwise.h"
#include "../optim_step.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#else
constexpr int kBytes = 32;
#endif

typedef float Floats __attribute__((vector_size(kBytes)));
typedef double Doubles __attribute__((vector_size(kBytes)));

#if defined(__AVX512F__)
inline Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
inline Floats root(Floats a) { return _mm512_sqrt_ps(a); }
inline Doubles root(Doubles a) { return _mm512_sqrt_pd(a); }
#elif defined(__AVX2__)
inline Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
inline Floats root(Floats a) { return _mm256_sqrt_ps(a); }
inline Doubles root(Doubles a) { return _mm256_sqrt_pd(a); }
#else
template <class V>
inline V fma(V a, V b, V c) {
  V r;
  for (size_t k = 0; k < kBytes / sizeof(a[0]); ++k) r[k] = std::fma(a[k], b[k], c[k]);
  return r;
}
template <class V>
inline V root(V a) {
  V r;
  for (size_t k = 0; k < kBytes / sizeof(a[0]); ++k) r[k] = std::sqrt(a[k]);
  return r;
}
#endif

template <class V>
inline V larger(V a, V b) { return (a > b) | (a != a) ? a : b; }  // a NaN on either side stays

// The numbers of one update as vectors.
template <class V>
struct Numbers {
  using T = std::remove_reference_t<decltype(std::declval<V&>()[0])>;
  V weight_decay, k[6];
  uint32_t flags;
  bool decays;
  explicit Numbers(const OptimNumbers& n)
      : weight_decay(V{} + T(n.weight_decay)), flags(n.flags), decays(n.weight_decay != 0) {
    for (int i = 0; i < 6; ++i) k[i] = V{} + T(n.k[i]);
  }
  bool has(uint32_t flag) const { return flags & flag; }
  V gradient(V p, V g) const {  // L2 decay adds weight_decay * p to the gradient
    if (has(kMaximize)) g = -g;
    return decays && !has(kDecoupled) ? fma(weight_decay, p, g) : g;
  }
};

// start + weight (end - start), counted from the nearer end
template <class V>
inline V lerp(V start, V end, V weight) {
  V way = end - start;
  return std::abs(weight[0]) < 0.5f ? fma(weight, way, start) : fma(weight - 1, way, end);
}

// v <- keep v + share g^2, the running mean of squares
template <class V>
inline V mean_square(V v, V g, V keep, V share) { return fma(share * g, g, v * keep); }

// m <- momentum m + (1 - dampening) g;  p <- p - lr m
struct SGD {
  template <class V>
  static void update(const Numbers<V>& n, V& p, V g, V& m, V&, V&) {
    const V &momentum = n.k[0], &share = n.k[1], &minus_lr = n.k[2];
    g = n.gradient(p, g);
    if (n.has(kMomentum)) {
      m = n.has(kFresh) ? g : fma(share, g, m * momentum);
      g = n.has(kNesterov) ? fma(momentum, m, g) : m;
    }
    p = fma(minus_lr, g, p);
  }
};

// m <- m + (1 - beta1)(g - m);  v <- beta2 v + (1 - beta2) g^2;
// p <- p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
struct Adam {
  template <class V>
  static void update(const Numbers<V>& n, V& p, V g, V& m, V& v, V& top) {
    const V &share1 = n.k[0], &beta2 = n.k[1], &share2 = n.k[2], &bias = n.k[3], &eps = n.k[4], &minus_step = n.k[5];
    g = n.gradient(p, g);
    if (n.decays && n.has(kDecoupled)) p = p * n.weight_decay;  // here 1 - lr * weight_decay
    m = lerp(m, g, share1);
    v = mean_square(v, g, beta2, share2);
    if (n.has(kAmsgrad)) top = larger(top, v);
    V scale = root(n.has(kAmsgrad) ? top : v) / bias + eps;
    p = p + (minus_step * m) / scale;
  }
};

// v <- alpha v + (1 - alpha) g^2;  p <- p - lr g / (sqrt(v) + eps), centered: v less the squared mean gradient
struct RMSprop {
  template <class V>
  static void update(const Numbers<V>& n, V& p, V g, V& v, V& m, V& mean) {
    const V &alpha = n.k[0], &share = n.k[1], &momentum = n.k[2], &eps = n.k[3], &minus_lr = n.k[4];
    g = n.gradient(p, g);
    v = mean_square(v, g, alpha, share);
    V square = v;
    if (n.has(kCentered)) {
      mean = lerp(mean, g, share);
      square = fma(-mean, mean, v);
    }
    V scale = root(square) + eps;
    if (n.has(kMomentum)) {
      m = m * momentum + g / scale;
      p = fma(minus_lr, m, p);
    } else {
      p = p + (minus_lr * g) / scale;
    }
  }
};

// v <- rho v + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) g;  u <- rho u + (1 - rho) d^2;  p <- p - lr d
struct Adadelta {
  template <class V>
  static void update(const Numbers<V>& n, V& p, V g, V& v, V& u, V&) {
    const V &rho = n.k[0], &share = n.k[1], &eps = n.k[2], &minus_lr = n.k[3];
    g = n.gradient(p, g);
    v = mean_square(v, g, rho, share);
    V delta = root(u + eps) / root(v + eps) * g;
    u = mean_square(u, delta, rho, share);
    p = fma(minus_lr, delta, p);
  }
};

// s <- s + g^2;  p <- p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
struct Adagrad {
  template <class V>
  static void update(const Numbers<V>& n, V& p, V g, V& sum, V&, V&) {
    const V &eps = n.k[0], &minus_lr = n.k[1];
    g = n.gradient(p, g);
    sum = fma(g, g, sum);
    p = p + (minus_lr * g) / (root(sum) + eps);
  }
};

template <class V, class Law>
void loop(const OptimNumbers& numbers, void* const arrays[kOptimArrays], int64_t n) {
  using T = typename Numbers<V>::T;
  constexpr int64_t width = sizeof(V) / sizeof(T);
  const Numbers<V> coefficients(numbers);
  auto some = [&](int64_t at, int64_t length) {
    V x[kOptimArrays] = {};
    for (int k = 0; k < kOptimArrays; ++k)
      if (arrays[k]) std::memcpy(&x[k], static_cast<T*>(arrays[k]) + at, length * sizeof(T));
    Law::update(coefficients, x[0], x[1], x[2], x[3], x[4]);
    for (int k = 0; k < kOptimArrays; ++k)
      if (arrays[k] && k != 1) std::memcpy(static_cast<T*>(arrays[k]) + at, &x[k], length * sizeof(T));
  };
  int64_t at = 0;
  for (; at + width <= n; at += width) some(at, width);  // a constant length: plain loads and stores
  if (at < n) some(at, n - at);
}

template <class V>
void fill_row(OptimLoop (&row)[kOptimKinds]) {
  row[int(OptimKind::SGD)] = loop<V, SGD>;
  row[int(OptimKind::Adam)] = loop<V, Adam>;
  row[int(OptimKind::RMSprop)] = loop<V, RMSprop>;
  row[int(OptimKind::Adadelta)] = loop<V, Adadelta>;
  row[int(OptimKind::Adagrad)] = loop<V, Adagrad>;
}

OptimLoops all_loops() {
  OptimLoops loops;
  fill_row<Floats>(loops.f32);
  fill_row<Doubles>(loops.f64);
  return loops;
}
const OptimRegistration registration(FLAMBEAU_LEVEL, all_loops);

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

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

template <class V>
struct Scalar {
  using type = std::remove_reference_t<decltype(std::declval<V&>()[0])>;
};
template <class V>
inline bool nearer_start(V weight) { return std::abs(weight[0]) < 0.5f; }

#define FLAMBEAU_INLINE
#include "../../../src/flambeau/cuda/kernels/shared/optim_laws.h"

// The states that there are, as bits; kAsTheyCome: only `arrays` tells. Where it is known when this is compiled, a
// vector of each array stays in a register.
constexpr unsigned kAsTheyCome = 8;
template <class V, class Law, unsigned states>
void loop_with(const Numbers<V>& numbers, void* const arrays[kOptimArrays], int64_t n) {
  using T = typename Numbers<V>::T;
  constexpr int64_t width = sizeof(V) / sizeof(T);
  auto there = [&](int k) {
    return states == kAsTheyCome ? arrays[k] != nullptr : k < 2 || (states >> (k - 2) & 1) != 0;
  };
  auto some = [&](int64_t at, auto length) __attribute__((always_inline)) {
    V x[kOptimArrays] = {};
#pragma GCC unroll 5
    for (int k = 0; k < kOptimArrays; ++k)
      if (there(k)) std::memcpy(&x[k], static_cast<T*>(arrays[k]) + at, length * sizeof(T));
    Law::update(numbers, x[0], x[1], x[2], x[3], x[4]);
#pragma GCC unroll 5
    for (int k = 0; k < kOptimArrays; ++k)
      if (there(k) && k != 1) std::memcpy(static_cast<T*>(arrays[k]) + at, &x[k], length * sizeof(T));
  };
  int64_t at = 0;
  for (; at + width <= n; at += width) some(at, std::integral_constant<int64_t, width>());  // plain loads and stores
  if (at < n) some(at, n - at);
}

// `usual`: sets of states that the law is called with.
template <class V, class Law, unsigned... usual>
void loop(const OptimNumbers& numbers, void* const arrays[kOptimArrays], int64_t n) {
  const Numbers<V> coefficients(numbers);
  unsigned states = 0;
  for (int k = 2; k < kOptimArrays; ++k) states |= unsigned(arrays[k] != nullptr) << (k - 2);
  if (!((states == usual && (loop_with<V, Law, usual>(coefficients, arrays, n), true)) || ...))
    loop_with<V, Law, kAsTheyCome>(coefficients, arrays, n);
}

template <class V>
void fill_row(OptimLoop (&row)[kOptimKinds]) {
  row[int(OptimKind::SGD)] = loop<V, SGD, 0, 1>;
  row[int(OptimKind::Adam)] = loop<V, Adam, 3, 7>;
  row[int(OptimKind::RMSprop)] = loop<V, RMSprop, 1, 3, 5, 7>;
  row[int(OptimKind::Adadelta)] = loop<V, Adadelta, 3>;
  row[int(OptimKind::Adagrad)] = loop<V, Adagrad, 1>;
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

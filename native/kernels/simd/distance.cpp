// Distances between rows of floats or doubles, as sums of squares or of magnitudes, in vectors.
#include "../distance.h"

#include <cmath>

#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

template <class X, bool Squares>
inline typename X::V term(typename X::V sum, typename X::V difference) {
  return Squares ? X::fma(difference, difference, sum) : X::add(sum, X::abs(difference));
}

// R rows of b, which share each load of a.
template <class X, bool Squares, int R>
void some_rows(const typename X::T* a, const typename X::T* b, int64_t d, typename X::T* to) {
  constexpr int W = X::width;
  typename X::V sums[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sums[r] = X::zero();
  int64_t k = 0;
  for (; k + W <= d; k += W) {
    const auto v = X::load(a + k);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[r] = term<X, Squares>(sums[r], X::sub(v, X::load(b + r * d + k)));
  }
  if (k < d) {
    const auto mask = X::mask(int(d - k));
    const auto v = X::load(a + k, mask);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[r] = term<X, Squares>(sums[r], X::sub(v, X::load(b + r * d + k, mask)));
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) to[r] = Squares ? std::sqrt(X::sum(sums[r])) : X::sum(sums[r]);
}

template <class X, bool Squares>
void distances(const typename X::T* a, const typename X::T* b, int64_t count, int64_t d, typename X::T* to) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) some_rows<X, Squares, 4>(a, b + j * d, d, to + j);
  for (; j < count; ++j) some_rows<X, Squares, 1>(a, b + j * d, d, to + j);
}

constexpr DistanceLoops kLoops{distances<F32, true>, distances<F32, false>, distances<F64, true>,
                               distances<F64, false>};
const bool registered = [] {
  distance_loops[FLAMBEAU_LEVEL] = &kLoops;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD

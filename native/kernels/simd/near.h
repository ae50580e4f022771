// A function that is simple near zero: blocks of numbers that all lie there are computed without what others need.
#pragma once
#include "loops.h"

namespace flambeau::FLAMBEAU_SIMD {

// near(x) where |x| <= bound for a whole block, any(x) elsewhere: NaN is not near.
template <class T, class Near, class Any>
inline void by_blocks(char* const* p, int64_t n, T bound, Near near, Any any) {
  constexpr int64_t kBlock = 512;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock, bytes = at * int64_t(sizeof(T));
    char* const q[2] = {p[0] + bytes, p[1] + bytes};
    const T* x = reinterpret_cast<const T*>(q[1]);
    typename Fp<T>::Bits most = 0;  // positive numbers are ordered as their bits are, NaN last
    for (int64_t i = 0; i < m; ++i) {
      const auto size = bits(abs_(x[i]));
      most = most < size ? size : most;
    }
    if (most <= bits(bound)) run1<T, T>(q, m, near);
    else run1<T, T>(q, m, any);
  }
}

}  // namespace flambeau::FLAMBEAU_SIMD

// A tensor as the rows along one of its dimensions, and the type that their sums and products are kept in.
#pragma once
#include "../core/tensor.h"

namespace flambeau {

// x seen as [outer, n, inner]
struct Fibres {
  int64_t outer = 1, n = 1, inner = 1;
  Fibres(const Tensor& x, int64_t dim) {
    for (int d = 0; d < x.ndim; ++d) (d < dim ? outer : d == dim ? n : inner) *= x.sizes[d];
  }
};

template <class T> struct Widened { using type = T; };
template <> struct Widened<float> { using type = double; };
template <> struct Widened<complex64> { using type = complex128; };

}  // namespace flambeau

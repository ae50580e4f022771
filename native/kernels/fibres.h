// A tensor as the rows along one of its dimensions, and the type that their sums and products are kept in.
#pragma once
#include <algorithm>

#include "../core/tensor.h"

namespace flambeau {

// x seen as [outer, n, inner]
struct Fibres {
  int64_t outer = 1, n = 1, inner = 1;
  Fibres(const Tensor& x, int64_t dim) {
    for (int d = 0; d < x.ndim; ++d) (d < dim ? outer : d == dim ? n : inner) *= x.sizes[d];
  }
};

// How far apart the rows along the last dimension of x begin, in elements; 0 where they are no evenly spaced runs.
inline int64_t row_pitch(const Tensor& x) {
  const int last = x.ndim - 1;
  if (last < 0 || (x.strides[last] != 1 && x.sizes[last] != 1)) return 0;
  int64_t pitch = std::max<int64_t>(1, x.sizes[last]), rows = 1;
  for (int d = last - 1; d >= 0; --d) {
    if (x.sizes[d] == 1) continue;
    if (rows == 1) pitch = x.strides[d];
    else if (x.strides[d] != pitch * rows) return 0;
    rows *= x.sizes[d];
  }
  return pitch;
}
// x for a loop over its rows along `dim`: itself, where these are runs of memory, else a copy.
struct Rows {
  TensorRef x;
  int64_t pitch;
  Rows(const Tensor& given, int64_t dim) : x(TensorRef::borrow(const_cast<Tensor*>(&given))) {
    pitch = dim == given.ndim - 1 ? row_pitch(given) : 0;
    if (!pitch) x = contiguous(given), pitch = Fibres(given, dim).n;
  }
};

template <class T> struct Widened { using type = T; };
template <> struct Widened<float> { using type = double; };
template <> struct Widened<complex64> { using type = complex128; };

}  // namespace flambeau

// Walking several arrays of one shape together: dimensions are merged where memory allows, rows go to a callback.
#pragma once
#include <algorithm>

#include "../core/tensor.h"

namespace flambeau {

template <int K>
struct Walk {
  int ndim = 0;
  int64_t rows = 1;                 // product of all but the innermost size
  int64_t size[kMaxDims + 1];
  int64_t stride[K][kMaxDims + 1];  // in the unit of the strides given
  bool empty = false;

  void add(int64_t n, const int64_t (&s)[K]) {
    if (n == 0) empty = true;
    if (n == 1) return;
    if (ndim > 0) {  // the previous dimension continues into this one?
      bool joined = true;
      for (int k = 0; k < K; ++k) joined &= stride[k][ndim - 1] == s[k] * n;
      if (joined) {
        size[ndim - 1] *= n;
        for (int k = 0; k < K; ++k) stride[k][ndim - 1] = s[k];
        return;
      }
    }
    size[ndim] = n;
    for (int k = 0; k < K; ++k) stride[k][ndim] = s[k];
    ++ndim;
  }
  void done() {
    if (ndim == 0) {
      size[0] = 1;
      for (int k = 0; k < K; ++k) stride[k][0] = 0;
      ndim = 1;
    }
    for (int d = 0; d + 1 < ndim; ++d) rows *= size[d];
    if (empty) rows = 0;
  }
  int64_t length() const { return size[ndim - 1]; }

  // f(offset of each array) for rows [begin, end); innermost sizes and strides are length() and stride[k][ndim - 1].
  template <class F>
  void each_row(int64_t begin, int64_t end, F f) const {
    if (begin >= end) return;
    int64_t index[kMaxDims + 1], offset[K] = {};
    int64_t rest = begin;
    for (int d = ndim - 2; d >= 0; --d) {
      index[d] = rest % size[d];
      rest /= size[d];
      for (int k = 0; k < K; ++k) offset[k] += index[d] * stride[k][d];
    }
    for (int64_t r = begin;;) {
      f(offset);
      if (++r >= end) return;
      for (int d = ndim - 2; d >= 0; --d) {
        for (int k = 0; k < K; ++k) offset[k] += stride[k][d];
        if (++index[d] < size[d]) break;
        index[d] = 0;
        for (int k = 0; k < K; ++k) offset[k] -= size[d] * stride[k][d];
      }
    }
  }
};

}  // namespace flambeau

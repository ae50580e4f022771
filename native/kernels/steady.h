// Values that must not change under a kernel. Another thread may write to a tensor at any moment (its kernel runs
// without the interpreter lock), so an index that was found within bounds may be another one when it is used. A kernel
// that reads a value twice and would leave its memory if the two differed takes one of these ways.
#pragma once
#include "../core/tensor.h"

namespace flambeau {

// A private copy: for kernels that come back to the values again and again.
inline TensorRef snapshot(const Tensor& t, DType dtype) {
  TensorRef copy = empty(t.shape(), dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

// Read once more, after the check: the index, or 0 where it lies outside of [0, size) by now.
inline int64_t index_within(const int64_t* place, int64_t size) {
  const int64_t i = __atomic_load_n(place, __ATOMIC_RELAXED);
  return uint64_t(i) < uint64_t(size) ? i : 0;
}

}  // namespace flambeau

// The dtype a kernel sums in, and the memory of its result in that dtype.
#pragma once

#include "../core/call.h"

namespace flambeau {

// Halves are summed in float32, complex32 in complex64, integers in int64, everything else in its own dtype.
inline DType sum_dtype(DType t) { return is_integral(t) ? DType::Int64 : wide_of(t); }

// What a kernel writes: `out` itself, or memory of the wider dtype, which finish() rounds into it.
struct WideResult {
  Tensor& out;
  const DType dtype;  // of the memory, and of what is to be read beside it
  TensorRef memory;
  explicit WideResult(Tensor& out) : out(out), dtype(sum_dtype(out.dtype)) {
    memory = dtype == out.dtype ? TensorRef::borrow(&out) : empty(out.shape(), dtype, out.device);
  }
  TensorRef operand(const Tensor& t) const { return contiguous(*to_dtype(t, dtype)); }
  template <class T>
  T* ptr() { return memory->ptr<T>(); }
  void finish() {
    if (dtype != out.dtype) copy_into(out, *memory);
  }
};

}  // namespace flambeau

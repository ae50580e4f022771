// The dtype a kernel sums in, and the memory of its result in that dtype.
#pragma once

#include "../core/call.h"
#include "../core/channels_last.h"

namespace flambeau {

// Halves are summed in float32, complex32 in complex64, integers in int64, everything else in its own dtype.
inline DType sum_dtype(DType t) { return is_integral(t) ? DType::Int64 : wide_of(t); }

// What a kernel writes: `out` itself, or memory of the wider dtype, which finish() rounds into it. Contiguous, or
// images whose channels lie last.
struct WideResult {
  Tensor& out;
  const bool last;
  const DType dtype;  // of the memory, and of what is to be read beside it
  TensorRef memory;
  explicit WideResult(Tensor& out, bool last = false) : out(out), last(last), dtype(sum_dtype(out.dtype)) {
    if (dtype == out.dtype) memory = TensorRef::borrow(&out);
    else if (last) memory = empty_strided(out.shape(), channels_last_strides(out.shape()), dtype, out.device);
    else memory = empty(out.shape(), dtype, out.device);
  }
  TensorRef operand(const Tensor& t) const {
    TensorRef wide = to_dtype(t, dtype);
    return last ? with_channels_last(*wide) : contiguous(*wide);
  }
  template <class T>
  T* ptr() { return memory->ptr<T>(); }
  void finish() {
    if (dtype != out.dtype) copy_into(out, *memory);
  }
};

}  // namespace flambeau

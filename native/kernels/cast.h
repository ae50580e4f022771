// Conversion of contiguous runs between element types, for kernels that convert block by block.
#pragma once
#include "../core/tensor.h"

namespace flambeau {

using CastFn = void (*)(void* dst, const void* src, int64_t n);

// n elements, both sides contiguous; `apply` never allocates. Types without a loop of their own go through one or two
// intermediate types (halves and float8 through float32, complex through its parts).
struct Cast {
  CastFn step[3] = {};
  int64_t item[4] = {};  // element sizes before and after each step
  int steps = 0;         // 0: same type
  void apply(char* dst, const char* src, int64_t n) const;
};
Cast make_cast(DType from, DType to);
void check_fits(const Scalar& value, DType dtype);  // throws where PyTorch finds the number too large
void store_scalar(void* dst, const Scalar& value, DType dtype);

}  // namespace flambeau

// Copies and fills where memory of a CUDA device is involved: what its table of the core does.
#pragma once
#include "../core/tensor.h"

namespace flambeau::cuda {

void copy(Tensor& dst, const Tensor& src);  // either may be on the CPU; any strides and dtypes; src is broadcast
void fill(Tensor& dst, const Scalar& value);

}  // namespace flambeau::cuda

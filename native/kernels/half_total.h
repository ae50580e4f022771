// The sum of halves that lie side by side, widened in registers (kernels/simd/half_rows.cpp).
#pragma once
#include "../core/dtype.h"

namespace flambeau {

// The sum of n halves, as Fold (folds.h) adds a block of as many floats.
using HalfTotal = double (*)(int64_t n, const uint16_t* x);
HalfTotal half_total(DType dtype);

}  // namespace flambeau

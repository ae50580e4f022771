// Sums of halves that are read as they lie and widened in registers (kernels/simd/half_rows.cpp).
#pragma once
#include "../core/dtype.h"

namespace flambeau {

// The sum of n halves, as Fold (folds.h) adds a block of as many floats.
using HalfTotal = double (*)(int64_t n, const uint16_t* x);
HalfTotal half_total(DType dtype);

// acc[j] += rows[0][j] + … + rows[n - 1][j] for w columns, as Fold adds rows of floats.
using HalfColumns = void (*)(double* acc, const uint16_t* const* rows, int n, int64_t w);
HalfColumns half_columns_total(DType dtype);

}  // namespace flambeau

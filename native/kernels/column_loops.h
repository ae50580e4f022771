// Passes over rows of channels that lie side by side, for normalisation: sums down the columns, and rows made of rows.
// Compiled once per instruction set (simd/column_loops.cpp). What belongs to a channel is of the type T that is
// computed in: float for float32 and halves, which are widened as they are read and rounded as they are written.
#pragma once
#include <cstdint>

#include "../core/machine.h"
#include "row_loops.h"

namespace flambeau {

template <class T>
struct ColumnLoops {
  // to += x. Sums are of type T on the way: few rows at a time.
  void (*sums)(const void* x, int64_t rows, int64_t channels, double* to);
  // to += (x - center)^2
  void (*squares)(const void* x, const T* center, int64_t rows, int64_t channels, double* to);
  // level += g, along += g (x - center)
  void (*products)(const void* g, const void* x, const T* center, int64_t rows, int64_t channels, double* level,
                   double* along);
  // y = (x - center) p + o; center may be null: zeros
  void (*scale)(const void* x, const T* center, const T* p, const T* o, int64_t rows, int64_t channels, void* y);
  // dx = g p + (x - center) q + o
  void (*mix)(const void* g, const void* x, const T* center, const T* p, const T* q, const T* o, int64_t rows,
              int64_t channels, void* dx);
};
struct AllColumnLoops {
  ColumnLoops<float> narrow[3];  // by row_dtype
  ColumnLoops<double> wide;
};
extern const AllColumnLoops* column_loop_levels[2];
// Of numbers of this dtype (float32 and halves; float64), by the best instruction set the processor has.
template <class T>
const ColumnLoops<T>& column_loops(DType dtype) {
  static const AllColumnLoops& best = best_loops(column_loop_levels);
  if constexpr (sizeof(T) == 8) return best.wide;
  else return best.narrow[row_dtype(dtype)];
}

}  // namespace flambeau

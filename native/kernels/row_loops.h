// Passes over rows of numbers with exponentials in them, compiled once per instruction set (simd/row_loops.cpp).
#pragma once
#include <cstdint>

#include "../core/dtype.h"

namespace flambeau {

// Floats and halves that loops read and write where they lie: their place in tables of such loops.
inline int row_dtype(DType t) { return t == DType::Float32 ? 0 : t == DType::Float16 ? 1 : 2; }

inline constexpr int64_t kColumnsTogether = 1024;

struct RowLoops {
  // softmax or its logarithm of each of `rows` rows of n
  void (*softmax)(const float* x, float* y, int64_t rows, int64_t n, bool log);
  // dx from the gradient g and the result y, of `rows` rows of n; by row_dtype
  void (*softmax_backward[3])(const void* g, const void* y, void* dx, int64_t rows, int64_t n, bool log);
  // The same of columns side by side, at most kColumnsTogether, whose n elements lie `apart` from each other.
  void (*softmax_backward_columns[3])(const void* g, const void* y, void* dx, int64_t n, int64_t apart, int64_t width,
                                      bool log);
  // sum of e^(x - top), also written to `out` unless null
  double (*exp_sum_of_floats)(const float* x, float* out, float top, int64_t n);
  double (*exp_sum_of_doubles)(const double* x, double* out, double top, int64_t n);
  // The gradient of log_softmax in doubles, g - e^y sum: of a row with one sum, or of columns side by side with theirs.
  void (*log_slope_of_row)(const double* g, const double* y, const double* sum, double* dx, int64_t n);
  void (*log_slope_of_columns)(const double* g, const double* y, const double* sum, double* dx, int64_t n);
  double (*product)(const float* x, int64_t n);
  // of each number, in its place
  void (*logarithms_of_floats)(float* x, int64_t n);
  void (*logarithms_of_doubles)(double* x, int64_t n);
  // side by side: sum += e^(x - top), and y = that exponential, or x - top
  void (*columns_exp_of_floats)(const float* x, const float* top, float* sum, float* y, int64_t n, bool shifted);
  void (*columns_exp_of_doubles)(const double* x, const double* top, double* sum, double* y, int64_t n, bool shifted);
};
const RowLoops& row_loops();  // of the best instruction set the processor has
inline double exp_sum(const float* x, float* out, float top, int64_t n) {
  return row_loops().exp_sum_of_floats(x, out, top, n);
}
inline double exp_sum(const double* x, double* out, double top, int64_t n) {
  return row_loops().exp_sum_of_doubles(x, out, top, n);
}

inline void columns_exp(const float* x, const float* top, float* sum, float* y, int64_t n, bool shifted) {
  row_loops().columns_exp_of_floats(x, top, sum, y, n, shifted);
}
inline void columns_exp(const double* x, const double* top, double* sum, double* y, int64_t n, bool shifted) {
  row_loops().columns_exp_of_doubles(x, top, sum, y, n, shifted);
}

inline void logarithms(float* x, int64_t n) { row_loops().logarithms_of_floats(x, n); }
inline void logarithms(double* x, int64_t n) { row_loops().logarithms_of_doubles(x, n); }

struct RowLoopsOfLevel {
  RowLoopsOfLevel(int level, const RowLoops& loops);
};

}  // namespace flambeau

// layer_norm and rms_norm (not centred) of a row of floats or halves, compiled once per instruction set
// (simd/norm_loops.cpp). Parameters and their gradients are floats.
#pragma once
#include <cstdint>

#include "../core/dtype.h"

namespace flambeau {

inline constexpr int64_t kLongestNormRow = 4096;  // numbers; sums of more would lose digits

struct NormLoops {
  // y = (x - mean) / deviation * w + b; b may be null
  void (*forward)(const void* x, const float* w, const float* b, int64_t n, double eps, bool centred, void* y);
  // dx from the gradient g, of one row or of two that follow each other; their share of the parameters' gradients is
  // added to dw and db, unless these are null
  void (*backward)(const void* g, const void* x, const float* w, int64_t rows, int64_t n, double eps, bool centred,
                   void* dx, float* dw, float* db);
};
// Of rows of this dtype (float32, float16, bfloat16), by the best instruction set the processor has.
const NormLoops& norm_loops(DType dtype);

struct NormLoopsOfLevel {
  NormLoopsOfLevel(int level, const NormLoops& floats, const NormLoops& float16, const NormLoops& bfloat16);
};

}  // namespace flambeau

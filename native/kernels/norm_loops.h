// layer_norm and rms_norm (not centred) of a row of floats, compiled once per instruction set (simd/norm_loops.cpp).
#pragma once
#include <cstdint>

namespace flambeau {

inline constexpr int64_t kLongestNormRow = 4096;  // numbers; sums of more would lose digits

struct NormLoops {
  // y = (x - mean) / deviation * w + b; b may be null
  void (*forward)(const float* x, const float* w, const float* b, int64_t n, double eps, bool centred, float* y);
  // dx from the gradient g, of one row or of two that follow each other; their share of the parameters' gradients is
  // added to dw and db
  void (*backward)(const float* g, const float* x, const float* w, int64_t rows, int64_t n, double eps, bool centred,
                   float* dx, float* dw, float* db);
};
const NormLoops& norm_loops();  // of the best instruction set the processor has

struct NormLoopsOfLevel {
  NormLoopsOfLevel(int level, const NormLoops& loops);
};

}  // namespace flambeau

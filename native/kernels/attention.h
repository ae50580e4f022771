// The row loops of attention; kernels/simd/attention.cpp fills the table.
#pragma once
#include <cstdint>

namespace flambeau {

struct AttentionKernels {
  float (*row_max)(const float* row, int64_t n);
  // score = p (score - mean) scale, where p are probabilities
  void (*row_grad)(float* score, const float* p, int64_t n, float mean, float scale);
};
extern const AttentionKernels* attention_kernels[2];

}  // namespace flambeau

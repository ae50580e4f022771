// One step of an optimizer over many tensors at once, the operator `_optim_step`: what its loops see.
#pragma once
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "../core/tensor.h"

namespace flambeau {

#ifndef FLAMBEAU_INLINE
#define FLAMBEAU_INLINE inline
#endif
#include "../../src/flambeau/cuda/kernels/shared/optim_numbers.h"

struct OptimSlot {
  Tensor* param = nullptr;
  Tensor* grad = nullptr;
  Tensor* state[3] = {};
  double step = 0;  // counted from 1
  bool fresh = false;
};

inline constexpr int kOptimArrays = 5;  // param, grad, three states

// One slot ready for loops and kernels: addresses, and what must be written back afterwards.
struct OptimJob {
  char* data[kOptimArrays] = {};
  DType dtype = DType::Float32;  // of all arrays
  int64_t n = 0;                 // real numbers
  TensorRef copies[kOptimArrays];
};
OptimJob make_job(const OptimSlot& slot);
void write_back(OptimJob& job, const OptimSlot& slot);
double count_of(const Tensor& step);  // of a step count on the CPU

// A loop over n elements; arrays the optimizer does not use are null.
using OptimLoop = void (*)(const OptimNumbers&, void* const arrays[kOptimArrays], int64_t n);
struct OptimLoops {
  OptimLoop f32[kOptimKinds];
  OptimLoop f64[kOptimKinds];
};
// Filled at load time by kernels/simd/optim_loops.cpp, one entry per instruction set.
struct OptimRegistration {
  // `loops` runs only where the processor has `level`: the file that defines it is compiled with those instructions
  OptimRegistration(int level, OptimLoops (*loops)());
};

}  // namespace flambeau

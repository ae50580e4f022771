// One step of an optimizer over many tensors at once, the operator `_optim_step`: what its loops see.
#pragma once
#include <span>
#include <string>

#include "../core/tensor.h"

namespace flambeau {

enum class OptimKind : uint8_t { SGD, Adam, RMSprop, Adadelta, Adagrad };
inline constexpr int kOptimKinds = 5;

enum OptimFlag : uint32_t {
  kMaximize = 1,    // ascend: the gradient's sign is turned
  kNesterov = 2,    // SGD
  kMomentum = 4,    // SGD, RMSprop: a momentum buffer is kept
  kAmsgrad = 8,     // Adam: divide by the running maximum
  kDecoupled = 16,  // AdamW: decay the weight, not the gradient
  kCentered = 32,   // RMSprop: subtract the squared mean gradient
  kFresh = 64,      // SGD: the buffer has no value yet and becomes the gradient
};

// The numbers of one parameter's update, already combined in double as the update's law says; see the loops.
struct OptimNumbers {
  double weight_decay = 0;
  double k[6] = {};
  uint32_t flags = 0;
};

struct OptimArgs {  // the numbers a parameter group gives
  double lr = 0, weight_decay = 0, eps = 0;
  double beta1 = 0, beta2 = 0;  // Adam's betas; SGD: momentum, dampening; RMSprop: alpha, momentum; Adadelta: rho;
                                // Adagrad: lr_decay
  uint32_t flags = 0;
};

struct OptimSlot {
  Tensor* param = nullptr;
  Tensor* grad = nullptr;
  Tensor* state[3] = {};
  double step = 0;  // counted from 1
  bool fresh = false;
};

inline constexpr int kOptimArrays = 5;  // param, grad, three states

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

// Conjugates and negatives that are views: their memory holds the other value, and flags say so (kConj, kNeg). Kernels
// see none but those that their rows accept (call.h): execute() gives them a copy of the values, and what they write to
// it goes back.
#pragma once
#include "call.h"

namespace flambeau {

inline bool is_lazy(const Tensor& t) { return t.flags & kLazy; }
// The values in memory that holds them: t itself unless it is lazy, else a copy without history.
FLAMBEAU_API TensorRef resolved(const Tensor& t);
void write_lazy(Tensor& t, const Tensor& values);  // of any dtype; broadcast to t's shape
// Executes a call that has lazy arguments.
void run_resolved(Call& c);

}  // namespace flambeau

// Masks: how many places they select, and which.
#pragma once
#include "../core/call.h"

namespace flambeau {

int64_t count_true(const Tensor& mask);  // of a contiguous bool tensor
TensorRef as_mask(const Tensor& t);      // t as a contiguous bool tensor
// Coordinates of the first n true elements (the first element of all where there are fewer by now):
// out[k * n + j] is coordinate k of the j-th one.
void true_places(const Tensor& mask, int64_t n, int64_t* out);

}  // namespace flambeau

// Images as [n, places…, channels] in memory.
#pragma once
#include <vector>

#include "tensor.h"

namespace flambeau {

// Whether images lie so, without gaps. Not those that are contiguous as well.
bool has_channels_last(const Tensor& t);
// The same with gaps, as in a part of such images.
bool has_channels_last_order(const Tensor& t);
std::vector<int64_t> channels_last_strides(Dims shape);
TensorRef with_channels_last(const Tensor& t);  // itself, or a copy

}  // namespace flambeau

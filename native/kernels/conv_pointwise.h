// Convolutions with filters of one place, of float32 images whose channels lie last, as matrix products: for each
// pixel, the product of its channels and the weights. oneDNN puts weights into its order first, which for many weights
// and few pixels takes as long as the products; a matrix product reads them as they lie.
#pragma once
#include "conv.h"

namespace flambeau {

// Which passes of which convolutions are computed so, because it takes less time. `strides` of the weights.
bool pointwise_pays(const ConvGeometry& g, ConvResult which, Dims strides);
void pointwise_convolve(const ConvGeometry& g, float* x, float* w, const float* bias, float* y, ConvResult which);

}  // namespace flambeau

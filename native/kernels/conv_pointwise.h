// Convolutions with filters of one place, of images whose channels lie last, as matrix products: for each pixel, the
// product of its channels and the weights. oneDNN puts weights into its order first, which for many weights and few
// pixels takes as long as the products; a matrix product reads them as they lie. For float and bfloat16.
#pragma once
#include "conv.h"

namespace flambeau {

// Larger filters as products of patches: what each pixel of the result is made from, copied side by side in the order
// of the weights, whose channels lie last or contiguous.
bool patches_pay(const ConvGeometry& g, ConvResult which, Dims strides);
void convolve_patches(const ConvGeometry& g, const bfloat16* x, const bfloat16* w, Dims strides, const bfloat16* bias,
                      bfloat16* y);

// Which passes of which convolutions are computed so, because it takes less time. `strides` of the weights.
template <class T>
bool pointwise_pays(const ConvGeometry& g, ConvResult which, Dims strides);
template <class T>
void pointwise_convolve(const ConvGeometry& g, T* x, T* w, const T* bias, T* y, ConvResult which);

}  // namespace flambeau

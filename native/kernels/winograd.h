// Convolutions with filters of 3 x 3 by minimal filtering, F(2 x 2, 3 x 3): 16 multiplications for each 2 x 2 places of
// the result where the definition needs 36 (Winograd 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2016).
//
// Images have their channels last. A patch of 4 x 4 places becomes 16 sums of its places, weights 16 sums of their
// taps; the products of the two are 16 matrix products over the channels, and 2 x 2 places of the result are sums of
// these. All sums have the factors 1, -1 and 1/2, so rounding errors stay those of a plain convolution.
#pragma once
#include "conv.h"
#include "conv_tail.h"

namespace flambeau {

// The inner loops of one instruction set (kernels/simd/winograd.cpp). The 16 sums lie `step` apart.
struct WinogradKernels {
  // v = B' d B of a patch, whose places `from` points to, for `channels` channels.
  void (*patch)(const float* const from[16], int64_t channels, float* v, int64_t step);
  // z = A g A' of 2 x 2 places of the result's gradient.
  void (*places)(const float* const from[4], int64_t channels, float* z, int64_t step);
  // y = A' m A + bias, then the tail; `cols` channels of 2 x 2 places of the result. m is read in whole vectors.
  void (*result)(const float* m, int64_t step, int64_t cols, const float* bias, bool adds,
                 const Activation& activation, float* const to[4]);
  // u = G w G' of `width` filters (whole vectors), whose taps lie `tap` apart.
  void (*weights)(const float* taps, int64_t tap, int64_t width, float* u, int64_t step);
  // The gradient of the taps from that of u: G' u G.
  void (*taps)(const float* u, int64_t step, int64_t width, float* taps, int64_t tap);
};
extern const WinogradKernels* winograd_kernels_f32[2];

// Which passes of which convolutions are computed so, because it takes less time.
bool winograd_pays(const ConvGeometry& g, ConvResult which);
bool winograd_has(Activation::Kind activation);
// Whether the products are computed from numbers in three parts (float_parts.h), for which weights are packed in
// another way.
bool winograd_splits(const ConvGeometry& g, ConvResult which);

// Weights [oc, ic, 3, 3] through their strides as `winograd_convolve` reads them: how many numbers, and these. For the
// gradient of the input they are turned, and filters and channels change places.
int64_t winograd_packed_size(const ConvGeometry& g, ConvResult which, bool splits);
void winograd_pack(const ConvGeometry& g, const float* w, Dims strides, ConvResult which, bool splits, float* packed);

// The result, or the gradient of the input. `adds`: to what is there.
struct WinogradTail {
  const float* bias = nullptr;
  bool adds = false;
  Activation activation;
};
void winograd_convolve(const ConvGeometry& g, ConvResult which, bool splits, const float* from, const float* packed,
                       const WinogradTail& tail, float* to);
// The gradient of the weights, [oc, ic, 3, 3] through its strides.
void winograd_weights(const ConvGeometry& g, const float* x, const float* gy, float* gw, Dims strides);

}  // namespace flambeau

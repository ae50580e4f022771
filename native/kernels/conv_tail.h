// A convolution of images with all that follows it, in memory that has the channels last.
#pragma once
#include "conv.h"

namespace flambeau {

enum class Activation : uint8_t { None, Relu, Relu6, Silu, Hardswish };

struct ConvTail {
  ConvGeometry g;
  bool bias, adds;        // `adds`: the result's memory holds what is added
  Activation activation;
};

// By oneDNN (conv_tail_onednn.cpp). x and y have the channels last; `pack` makes the weights, [oc, ic / groups,
// kernel], and the bias as they are used, unless ones with this fingerprint are kept. False: it has no such primitive.
struct Fingerprint {
  uint64_t a, b;
};
bool onednn_convolution_with_tail(const ConvTail& t, const float* x, float* y, Fingerprint weights,
                                  void (*pack)(const void* context, float* w, float* bias), const void* context);

// A convolution alone, of images with the channels last, with weights that are kept in oneDNN's order; whether those
// seem to stay as they are. False: it has no such primitive.
bool weights_stay(const Tensor& w);
bool convolve_with_kept_weights(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor* bias,
                                Tensor& out);

void forget_packed_weights();
int64_t kept_packed_weights();  // how many

}  // namespace flambeau

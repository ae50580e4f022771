// A convolution of images with all that follows it, in memory that has the channels last.
#pragma once
#include <functional>
#include <memory>

#include "conv.h"
#include "recent.h"

namespace flambeau {

// What becomes of a result at last. Clip: it is moved into [low, high]; NaN stays.
struct Activation {
  enum Kind : uint8_t { None, Relu, Clip, Silu, Hardswish } kind = None;
  float low = 0, high = 0;
};

struct ConvTail {
  ConvGeometry g;
  bool bias, adds;        // `adds`: the result's memory holds what is added
  Activation activation;
};

// Weights in the order in which they are read, and the bias.
struct PackedWeights {
  float* weights;
  std::vector<float> bias;
  size_t cost;  // bytes
  PackedWeights(size_t bytes, int64_t channels);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
};
// Those of a convolution with its tail, [oc, ic / groups, kernel], in an order that `key` tells apart from others of
// the same shape: the ones kept, or new ones of `bytes` bytes.
using PutInOrder = std::function<void(const float* plain, float* to)>;
struct TailWeights {
  virtual std::shared_ptr<const PackedWeights> in_order(Key key, size_t bytes, const PutInOrder& order) const = 0;

 protected:
  ~TailWeights() = default;
};

// By oneDNN (conv_tail_onednn.cpp). x and y have the channels last. False: it has no such primitive.
bool onednn_convolution_with_tail(const ConvTail& t, const float* x, float* y, const TailWeights& weights);

// A convolution alone, of images with the channels last, with weights that are kept in the order in which they are
// read; whether those seem to stay as they are. False: nothing computes it so.
bool weights_stay(const Tensor& w);
bool convolve_with_kept_weights(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor* bias,
                                Tensor& out);

void forget_packed_weights();
int64_t kept_packed_weights();  // how many

}  // namespace flambeau

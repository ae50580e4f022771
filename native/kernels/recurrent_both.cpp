// _recurrent_both: a recurrent layer in one direction or both, as one call of a device's library. On the CPU a layer is
// a recurrent_layer for each direction.
#include <array>

#include "../core/call.h"
#include "recurrent_layer.h"

namespace flambeau {
namespace {

using recurrent::need_shape;
// (input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, the same four of the other direction, batch_sizes, mode,
// kept)
enum { kInput, kH0, kC0, kWeights, kBatchSizes = 11, kMode, kKept };
constexpr int kShift = 3;  // the backward's schema begins with three gradients

struct Sizes {
  int64_t rows = 0, batch, directions, hidden;
  bool lstm;
};

Sizes sizes_of(const Call& c, int shift) {
  Sizes s;
  const auto steps = c.ints(shift + kBatchSizes);
  if (!steps.size()) runtime_error(c.name(), ": the sequence is empty; at least one step is needed");
  for (int64_t t = 0; t < int64_t(steps.size()); ++t) s.rows += steps[t];
  const auto mode = c.str(shift + kMode);
  const Tensor &x = c.tensor(shift + kInput), &w = c.tensor(shift + kWeights);
  const int64_t gates = mode == "lstm" ? 4 : mode == "gru" ? 3 : 1, inputs = x.ndim == 2 ? x.size(1) : -1;
  s.batch = steps[0], s.lstm = mode == "lstm", s.hidden = w.size(0) / gates;
  s.directions = c.optional_tensor(shift + kWeights + 4) ? 2 : 1;
  need_shape(c, &x, "an input", {s.rows, inputs});
  need_shape(c, &c.tensor(shift + kH0), "h0", {s.directions, s.batch, s.hidden});
  need_shape(c, c.optional_tensor(shift + kC0), "c0", {s.directions, s.batch, s.hidden});
  const int64_t n = gates * s.hidden;
  for (int k = kWeights; k < kBatchSizes; ++k) {
    const Tensor* t = c.optional_tensor(shift + k);
    if (t && t->dtype != x.dtype)
      runtime_error(c.name(), ": expected input, states and weights of one dtype, got ", dtype_name(x.dtype), " and ",
                    dtype_name(t->dtype));
    const int part = (k - kWeights) % 4;
    if (part > 1) need_shape(c, t, "a bias", {n});
    else need_shape(c, t, part ? "weight_hh" : "weight_ih", {n, part ? s.hidden : inputs});
  }
  return s;
}

void infer_forward(Call& c) {
  const Sizes s = sizes_of(c, 0);
  const Tensor& x = c.tensor(kInput);
  const int64_t out[] = {s.rows, s.directions * s.hidden}, state[] = {s.directions, s.batch, s.hidden}, nothing[] = {0};
  c.output(out, x.dtype, x.device);
  c.output(state, x.dtype, x.device);
  c.output(s.lstm ? Dims(state) : Dims(nothing), x.dtype, x.device);
  c.output(std::array{c.integer(kKept)}, DType::UInt8, x.device);
}

// The gradients of all tensors in order; those of absent ones are empty.
void infer_backward(Call& c) {
  sizes_of(c, kShift);
  const int64_t nothing[] = {0};
  const Tensor& x = c.tensor(kShift);
  for (int k = kInput; k < kBatchSizes; ++k) {
    const Tensor* like = c.optional_tensor(kShift + k);
    c.output(like ? like->shape() : Dims(nothing), x.dtype, x.device);
  }
}

void refuse(Call& c) { not_implemented(c.name(), ": only on CUDA; call recurrent_layer for each direction"); }

const Primitives rows{{"_recurrent_both", infer_forward, refuse}, {"_recurrent_both_backward", infer_backward, refuse}};

}  // namespace
}  // namespace flambeau

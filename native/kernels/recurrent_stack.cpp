// _recurrent_stack: recurrent layers one above the other, in one direction or both, as one call of a device's library.
// On the CPU they are a recurrent_layer for each layer and direction.
#include <array>

#include "../core/call.h"
#include "recurrent_layer.h"

namespace flambeau {
namespace {

using recurrent::need_shape;
// (operands, bias, both, batch_sizes, mode, kept); operands: input, h0, c0, the weights of each layer and direction
enum { kOperands, kBias, kBoth, kBatchSizes, kMode, kKept };
enum { kInput, kH0, kC0, kWeights };
constexpr int kShift = 3;  // the backward's schema begins with three gradients

struct Sizes {
  int64_t rows = 0, batch, states, directions, hidden;
  bool lstm;
};

Sizes sizes_of(const Call& c, int shift) {
  Sizes s;
  const auto steps = c.ints(shift + kBatchSizes);
  if (!steps.size()) runtime_error(c.name(), ": the sequence is empty; at least one step is needed");
  for (int64_t t = 0; t < int64_t(steps.size()); ++t) s.rows += steps[t];
  const auto mode = c.str(shift + kMode);
  const auto operands = c.tensors(shift + kOperands);
  s.directions = c.boolean(shift + kBoth) ? 2 : 1;
  const int64_t each = c.boolean(shift + kBias) ? 4 : 2, weights = int64_t(operands.size()) - kWeights;
  if (weights < each || weights % (each * s.directions))
    runtime_error(c.name(), ": expected an input, h0, c0 and ", each * s.directions, " weights for each layer, got ",
                  operands.size(), " operands");
  for (size_t k = 0; k < operands.size(); ++k)
    if (!operands[k] && k != kC0) runtime_error(c.name(), ": operand ", k, " is None; only c0 may be");
  const Tensor& x = *operands[kInput];
  const int64_t gates = mode == "lstm" ? 4 : mode == "gru" ? 3 : 1, inputs = x.ndim == 2 ? x.size(1) : -1;
  s.states = weights / each;
  s.batch = steps[0], s.lstm = mode == "lstm", s.hidden = operands[kWeights]->size(0) / gates;
  need_shape(c, &x, "an input", {s.rows, inputs});
  need_shape(c, operands[kH0], "h0", {s.states, s.batch, s.hidden});
  need_shape(c, operands[kC0], "c0", {s.states, s.batch, s.hidden});
  const int64_t n = gates * s.hidden;
  for (int64_t k = 0; k < weights; ++k) {
    const Tensor* t = operands[size_t(kWeights + k)];
    if (t->dtype != x.dtype)
      runtime_error(c.name(), ": expected input, states and weights of one dtype, got ", dtype_name(x.dtype), " and ",
                    dtype_name(t->dtype));
    const int64_t part = k % each, width = k < each * s.directions ? inputs : s.directions * s.hidden;
    if (part > 1) need_shape(c, t, "a bias", {n});
    else need_shape(c, t, part ? "weight_hh" : "weight_ih", {n, part ? s.hidden : width});
  }
  return s;
}

void infer_forward(Call& c) {
  const Sizes s = sizes_of(c, 0);
  const Tensor& x = *c.tensors(kOperands)[kInput];
  const int64_t out[] = {s.rows, s.directions * s.hidden}, state[] = {s.states, s.batch, s.hidden}, nothing[] = {0};
  c.output(out, x.dtype, x.device);
  c.output(state, x.dtype, x.device);
  c.output(s.lstm ? Dims(state) : Dims(nothing), x.dtype, x.device);
  c.output(std::array{c.integer(kKept)}, DType::UInt8, x.device);
}

// The gradients of all operands in order; that of an absent one is empty.
void infer_backward(Call& c) {
  sizes_of(c, kShift);
  const auto operands = c.tensors(kShift + kOperands);
  const int64_t nothing[] = {0};
  for (const Tensor* like : operands)
    c.output(like ? like->shape() : Dims(nothing), operands[kInput]->dtype, operands[kInput]->device);
}

void refuse(Call& c) { not_implemented(c.name(), ": only on CUDA; call recurrent_layer for each layer and direction"); }

const Primitives rows{
    {"_recurrent_stack", infer_forward, refuse},
    {"_recurrent_stack_backward", infer_backward, refuse},
};

}  // namespace
}  // namespace flambeau

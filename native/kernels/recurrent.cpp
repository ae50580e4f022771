// What a recurrent layer (one layer in one direction, over all its steps) is asked for: its sizes, results and checks.
//
// Sequences lie step by step: `batch_sizes[t]` rows belong to step t, sequences of falling length, so a padded input
// and a packed one are the same here. Of many sequences a thread owns some and walks through all steps of these without
// waiting for others. Of few it owns some units: their columns of the weights stay in its cache, and the threads meet
// once a step. How they are divided changes no result.
#include "recurrent_layer.h"

namespace flambeau {

const RecurrentKernels<float>* recurrent_kernels_f32[2];
const RecurrentKernels<double>* recurrent_kernels_f64[2];

namespace recurrent {

static Mode mode_of(const Call& c, std::string_view name) {
  if (name == "tanh") return Mode::Tanh;
  if (name == "relu") return Mode::Relu;
  if (name == "lstm") return Mode::LSTM;
  if (name == "gru") return Mode::GRU;
  value_error(c.name(), ": unknown mode '", std::string(name), "'; expected tanh, relu, lstm or gru");
}

void need_shape(const Call& c, const Tensor* t, const char* name, std::initializer_list<int64_t> shape) {
  if (!t) return;
  if (!std::equal(shape.begin(), shape.end(), t->sizes, t->sizes + t->ndim))
    runtime_error(c.name(), ": expected ", name, " of shape ", shape_text(Dims(shape.begin(), shape.size())), ", got ",
                  shape_text(t->shape()));
}

// long because: one check after the other, each with its message
Layer layer_of(const Call& c, int shift) {
  Layer l;
  l.mode = mode_of(c, c.str(shift + kMode));
  l.reverse = c.boolean(shift + kReverse);
  l.batch_sizes = c.ints(shift + kBatchSizes);
  l.steps = int64_t(l.batch_sizes.size());
  l.rows = 0;
  for (int64_t t = 0; t < l.steps; ++t) {
    const int64_t n = l.batch_sizes[t];
    if (n < 0 || (t && n > l.batch_sizes[t - 1]))
      runtime_error(c.name(), ": batch sizes must be positive and must not rise, got ", n, " at step ", t);
    l.offsets.push_back(l.rows);
    l.rows += n;
  }
  if (!l.steps) runtime_error(c.name(), ": the sequence is empty; at least one step is needed");
  l.batch = l.batch_sizes[0];
  const Tensor &x = c.tensor(shift + kInput), &w = c.tensor(shift + kWih), &u = c.tensor(shift + kWhh);
  const int64_t many = l.mode == Mode::LSTM ? 4 : l.mode == Mode::GRU ? 3 : 1;
  if (x.ndim != 2 || w.ndim != 2 || u.ndim != 2)
    runtime_error(c.name(), ": expected matrices, got an input of shape ", shape_text(x.shape()), " and weights ",
                  shape_text(w.shape()), ", ", shape_text(u.shape()));
  l.inputs = w.size(1), l.gates = w.size(0), l.hidden = l.gates / many, l.state = u.size(1);
  l.ld = l.mode == Mode::GRU ? 4 * l.hidden : l.gates;
  if (l.gates % many || l.gates == 0)
    runtime_error(c.name(), ": weight_ih has ", l.gates, " rows, which are not ", many, " gates");
  const Tensor* projection = c.optional_tensor(shift + kWhr);
  if (projection && l.mode != Mode::LSTM) runtime_error(c.name(), ": only LSTM has a projection");
  if (!projection && l.state != l.hidden)
    runtime_error(c.name(), ": expected weight_hh of shape [", l.gates, ", ", l.hidden, "], got ",
                  shape_text(u.shape()));
  need_shape(c, &x, "an input", {l.rows, l.inputs});
  need_shape(c, &u, "weight_hh", {l.gates, l.state});
  need_shape(c, c.optional_tensor(shift + kH0), "h0", {l.batch, l.state});
  need_shape(c, c.optional_tensor(shift + kC0), "c0", {l.batch, l.hidden});
  need_shape(c, c.optional_tensor(shift + kBih), "bias_ih", {l.gates});
  need_shape(c, c.optional_tensor(shift + kBhh), "bias_hh", {l.gates});
  need_shape(c, projection, "weight_hr", {l.state, l.hidden});
  if (x.dtype != DType::Float32 && x.dtype != DType::Float64 && !is_half(x.dtype))
    runtime_error(c.name(), ": not offered for dtype ", dtype_name(x.dtype));
  for (int k : {kH0, kC0, kWih, kWhh, kBih, kBhh, kWhr})
    if (const Tensor* t = c.optional_tensor(shift + k); t && t->dtype != x.dtype)
      runtime_error(c.name(), ": expected input, states and weights of one dtype, got ", dtype_name(x.dtype), " and ",
                    dtype_name(t->dtype));
  return l;
}

Parts parts_of(const Layer& l) {
  // sequences of a thread: one that has more reads the weights seldom enough, unless they are in no cache
  const int64_t weights = l.gates * l.state, few = weights > 1 << 23 ? 48 : 2;
  const int64_t threads = num_threads();
  if (l.steps < 2 || in_parallel() || l.batch >= (few + 1) * threads || l.batch * weights < 1 << 17 ||
      weights < 1 << 16)
    return {};
  return {std::max<int64_t>(1, std::min(threads, l.hidden / 32))};
}

namespace {

// (out, hn, cn, gates, cells, unprojected); the last three are for the way back
void infer_forward(Call& c) {
  const Layer& l = c.hand_over(layer_of(c, 0));
  const Tensor& x = c.tensor(kInput);
  const DType wide = is_half(x.dtype) ? DType::Float32 : x.dtype;
  auto result = [&](int64_t rows, int64_t columns, DType dtype) {
    int64_t shape[] = {rows, columns};
    c.output(shape, dtype, x.device);
  };
  const bool lstm = l.mode == Mode::LSTM, gated = lstm || l.mode == Mode::GRU;
  result(l.rows, l.state, x.dtype);
  result(l.batch, l.state, x.dtype);
  result(lstm ? l.batch : 0, l.hidden, x.dtype);
  result(gated ? l.rows : 0, l.ld, wide);
  result(lstm ? l.rows : 0, l.hidden, wide);
  result(l.projected() ? l.rows : 0, l.hidden, wide);
}

// Gradients of input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr; bit k of mask asks for k.
void infer_backward(Call& c) {
  const Layer& l = c.hand_over(layer_of(c, kShift));
  const int64_t mask = c.integer(kMask), nothing[] = {0};
  need_shape(c, c.optional_tensor(0), "a gradient", {l.rows, l.state});
  need_shape(c, c.optional_tensor(1), "a gradient of hn", {l.batch, l.state});
  if (l.mode == Mode::LSTM) need_shape(c, c.optional_tensor(2), "a gradient of cn", {l.batch, l.hidden});
  need_shape(c, &c.tensor(kOut), "out", {l.rows, l.state});
  if (l.mode >= Mode::LSTM) need_shape(c, &c.tensor(kGates), "gates", {l.rows, l.ld});
  if (l.mode == Mode::LSTM) need_shape(c, &c.tensor(kCells), "cells", {l.rows, l.hidden});
  const Tensor& x = c.tensor(kShift + kInput);
  for (int k = kInput; k <= kWhr; ++k) {
    const Tensor* like = c.optional_tensor(kShift + k);
    c.output(like && mask >> k & 1 ? like->shape() : Dims(nothing), x.dtype, x.device);
  }
}

void cpu_forward(Call& c) {
  if (c.tensor(kInput).dtype == DType::Float64) return forward<double>(c);
  forward<float>(c);
}
void cpu_backward(Call& c) {
  if (c.tensor(kShift + kInput).dtype == DType::Float64) return backward<double>(c);
  backward<float>(c);
}

const Primitives rows{
    {"recurrent_layer", infer_forward, cpu_forward},
    {"recurrent_layer_backward", infer_backward, cpu_backward},
};

}  // namespace
}  // namespace recurrent
}  // namespace flambeau

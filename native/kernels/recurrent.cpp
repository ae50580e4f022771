// One layer of a recurrent network in one direction, over all its steps: the input's share of every gate in one
// product, then each step's product with the state and its gates, and the same backwards.
//
// Sequences lie step by step: `batch_sizes[t]` rows belong to step t, sequences of falling length, so a padded input
// and a packed one are the same here. A thread owns some sequences and walks through all steps of these without waiting
// for others; how they are divided changes no result.
#include "recurrent.h"

#include <algorithm>
#include <cstring>

#include "../core/machine.h"
#include "elementwise.h"
#include "gemm.h"

namespace flambeau {

const RecurrentKernels<float>* recurrent_kernels_f32[2];
const RecurrentKernels<double>* recurrent_kernels_f64[2];

namespace {

template <class T>
const RecurrentKernels<T>& row_kernels() {
  static const auto* chosen = [] {
    const auto& table = [] () -> auto& {
      if constexpr (sizeof(T) == 4) return recurrent_kernels_f32;
      else return recurrent_kernels_f64;
    }();
    return table[cpu_level()] ? table[cpu_level()] : table[0];
  }();
  return *chosen;
}

enum class Mode { Tanh, Relu, LSTM, GRU };

// The positions of what both operators share, in the forward's schema.
enum Argument { kInput, kH0, kC0, kWih, kWhh, kBih, kBhh, kWhr, kBatchSizes, kMode, kReverse };
constexpr int kShift = 3;  // the backward's schema begins with three gradients

struct Layer {
  Mode mode;
  bool reverse;
  Dims batch_sizes;
  std::vector<int64_t> offsets;              // the first row of each step
  int64_t steps, rows, batch;                // batch: sequences, the rows of step 0
  int64_t inputs, hidden, state, gates, ld;  // state: width of h; gates: rows of weight_ih; ld: columns of saved gates
  bool projected() const { return mode == Mode::LSTM && state != hidden; }
};

Mode mode_of(const Call& c, std::string_view name) {
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

// A fixed right operand B[k, n] that meets another left one at each step. For more than one step it is packed once.
template <class T>
struct Operand {
  const T* b;
  int64_t k, n, ks, ns;
  TensorRef memory;
  const T* panels = nullptr;

  Operand() = default;
  Operand(const T* b, int64_t k, int64_t n, int64_t ks, int64_t ns, int64_t steps) : b(b), k(k), n(n), ks(ks), ns(ns) {
    if (steps < 2 || !k) return;
    const auto& kernels = gemm_kernels<T>();
    int64_t shape[] = {kernels.direct_scratch(n, k)};
    memory = empty(shape, sizeof(T) == 4 ? DType::Float32 : DType::Float64);
    panels = memory->ptr<T>();
  }
  void pack() {
    if (!panels) return;
    const auto& kernels = gemm_kernels<T>();
    const int64_t nr = kernels.nr;
    parallel_for((n + nr - 1) / nr, std::max<int64_t>(1, (1 << 15) / (nr * k)), [&](int64_t j, int64_t end) {
      for (; j < end; ++j)
        kernels.pack(memory->ptr<T>() + j * nr * k, width(j), b + j * nr * ns, ns, ks, std::min(nr, n - j * nr), k);
    });
  }
  int width(int64_t panel) const {  // of a panel, in whole vectors
    const auto& kernels = gemm_kernels<T>();
    const int64_t cols = std::min<int64_t>(kernels.nr, n - panel * kernels.nr);
    return int((cols + kernels.width - 1) / kernels.width * kernels.width);
  }
  // C[m, n] = A B + beta C + bias; the tiles of A are of even height
  void multiply(int64_t m, const T* a, int64_t ars, T* c, int64_t crs, const Epilogue<T>& e) const {
    if (!panels) return gemm<T>(m, n, k, a, ars, 1, b, ks, ns, c, crs, e);
    const auto& kernels = gemm_kernels<T>();
    const int64_t nr = kernels.nr, tiles = (m + kernels.mr - 1) / kernels.mr, mr = (m + tiles - 1) / tiles;
    for (int64_t j = 0; j < n; j += nr) {
      Epilogue<T> tile = e;
      if (tile.bias_col) tile.bias_col += j;
      for (int64_t i = 0; i < m; i += mr)
        kernels.direct(std::min(mr, m - i), std::min(nr, n - j), k, a + i * ars, ars, 1, panels + j * k,
                       width(j / nr), 1, c + i * crs + j, crs, tile, nullptr);
    }
  }
};

// Calls step(t, first sequence, number of sequences, first row) for all steps, in their order or backwards, for each
// part of the batch.
template <class F>
void walk(const Layer& l, bool backwards, F&& step) {
  const int64_t work = l.rows * l.gates * l.state, enough = 1 << 18;
  // fewer than 4 rows leave a thread waiting for its own sums
  const int64_t grain = l.steps == 1 || work < enough ? l.batch : std::max<int64_t>(4, l.batch * (enough / 2) / work);
  parallel_for(l.batch, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
    for (int64_t s = 0; s < l.steps; ++s) {
      interruption_point();
      const int64_t t = l.reverse != backwards ? l.steps - 1 - s : s;
      const int64_t m = std::min(end, l.batch_sizes[t]) - begin;
      if (m > 0) step(t, begin, m, l.offsets[t] + begin);
    }
  });
}

template <class T>
TensorRef dense(const Tensor* t) {
  if (!t) return {};
  return contiguous(*to_dtype(*t, sizeof(T) == 4 ? DType::Float32 : DType::Float64));
}
template <class T>
T* data(const TensorRef& t) { return t ? t->ptr<T>() : nullptr; }

// What both directions read, in the compute type.
template <class T>
struct Operands {
  TensorRef refs[8];
  Operands(const Call& c, int shift) {
    for (int k = kInput; k <= kWhr; ++k) refs[k] = dense<T>(c.optional_tensor(shift + k));
  }
  const T* operator[](int k) const { return data<T>(refs[k]); }
};

int64_t work_of(const Layer& l) { return l.rows * l.gates * (l.inputs + l.state) / 16; }

// Results in the compute type: those of halves are rounded at the end.
template <class T>
struct Wide {
  Call& c;
  std::vector<TensorRef> memory;
  explicit Wide(Call& c, int n) : c(c), memory(size_t(n)) {
    for (int k = 0; k < n; ++k)
      memory[k] = is_half(c.out(k).dtype) ? empty(c.out(k).shape(), DType::Float32) : TensorRef::borrow(&c.out(k));
  }
  T* operator[](int k) { return memory[k]->template ptr<T>(); }
  void round() {
    for (size_t k = 0; k < memory.size(); ++k)
      if (memory[k].get() != &c.out(int(k))) copy_into(c.out(int(k)), *memory[k]);
  }
};

// --- forward: (out, hn, cn, gates, cells, unprojected); the last three are for the way back --------------------------

void infer_forward(Call& c) {
  const Layer l = layer_of(c, 0);
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

template <class T>
std::vector<T> joined_bias(const Layer& l, const T* ih, const T* hh) {
  std::vector<T> bias;
  if (!ih && !hh) return bias;
  bias.assign(size_t(l.gates), T(0));
  const int64_t common = l.mode == Mode::GRU ? 2 * l.hidden : l.gates;  // GRU's r stands before the state's share of n
  for (int64_t j = 0; ih && j < l.gates; ++j) bias[j] += ih[j];
  for (int64_t j = 0; hh && j < common; ++j) bias[j] += hh[j];
  return bias;
}

// long because: one check after the other, each with its message
template <class T>
void forward(Call& c) {
  const Layer l = layer_of(c, 0);
  if (l.rows == 0) {
    for (int k = 1; k < 3; ++k) fill(c.out(k), Scalar(0));
    return;
  }
  Operands<T> in(c, 0);
  Wide<T> to(c, 6);
  const auto& kernels = row_kernels<T>();
  const int64_t n = l.hidden, p = l.state, ld = l.ld;
  const bool gru = l.mode == Mode::GRU, gated = gru || l.mode == Mode::LSTM;
  T *out = to[0], *h = to[1], *cell = to[2], *gates = gated ? to[3] : out, *cells = to[4], *raw = to[5];
  Operand<T> state(in[kWhh], p, gru ? 2 * n : l.gates, 1, p, l.steps), fresh, project;
  if (gru) fresh = Operand<T>(in[kWhh] + 2 * n * p, p, n, 1, p, l.steps);
  if (l.projected()) project = Operand<T>(in[kWhr], n, p, 1, n, l.steps);
  // packed where many rows meet it and a panel stays in the first two caches; otherwise gemm chooses the way
  const bool packed = l.rows >= 64 && l.inputs <= 1024;
  Operand<T> input(in[kWih], l.inputs, l.gates, 1, l.inputs, packed ? l.steps : 1);
  const std::vector<T> bias = joined_bias(l, in[kBih], in[kBhh]);
  {
    LockRelease lock(work_of(l));
    state.pack(), gru ? fresh.pack() : void(), l.projected() ? project.pack() : void();
    in[kH0] ? (void)std::copy_n(in[kH0], l.batch * p, h) : (void)std::fill_n(h, l.batch * p, T(0));
    if (l.mode == Mode::LSTM)
      in[kC0] ? (void)std::copy_n(in[kC0], l.batch * n, cell) : (void)std::fill_n(cell, l.batch * n, T(0));
    const Epilogue<T> shares{1, 0, bias.empty() ? nullptr : bias.data()};
    input.pack();
    parallel_for(l.rows, input.panels ? std::max<int64_t>(1, (1 << 19) / (l.gates * l.inputs)) : l.rows,
                 [&](int64_t row, int64_t end) {
      input.multiply(end - row, in[kInput] + row * l.inputs, l.inputs, gates + row * ld, ld, shares);
    });
    walk(l, false, [&](int64_t, int64_t b, int64_t m, int64_t row) {
      T *g = gates + row * ld, *y = out + row * p;
      state.multiply(m, h + b * p, p, g, ld, {1, 1});
      switch (l.mode) {
        case Mode::LSTM: {
          T* to = l.projected() ? raw + row * n : y;
          for (int64_t i = 0; i < m; ++i)
            kernels.lstm(n, g + i * ld, cell + (b + i) * n, cells + (row + i) * n, to + i * n);
          if (l.projected()) project.multiply(m, to, n, y, p, {});
          break;
        }
        case Mode::GRU:
          fresh.multiply(m, h + b * p, p, g + 3 * n, ld, {1, 0, in[kBhh] ? in[kBhh] + 2 * n : nullptr});
          for (int64_t i = 0; i < m; ++i) kernels.gru(n, g + i * ld, h + (b + i) * n, y + i * n);
          return;
        case Mode::Tanh: kernels.tanh(m * n, y); break;
        case Mode::Relu: kernels.relu(m * n, y); break;
      }
      std::copy_n(y, m * p, h + b * p);
    });
  }
  to.round();
}

// --- backward: gradients of input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr; bit k of mask asks for k
// --

enum Saved { kOut = kShift + kReverse + 1, kGates, kCells, kRaw, kMask };

void infer_backward(Call& c) {
  const Layer l = layer_of(c, kShift);
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

template <class T>
void column_sums(const T* g, int64_t rows, int64_t ld, int64_t n, T* to) {
  const auto& kernels = row_kernels<T>();
  std::fill_n(to, n, T(0));
  std::vector<T> block(static_cast<size_t>(n));
  for (int64_t i = 0; i < rows; i += 64) {  // blocks, so that the error grows with rows / 64
    std::fill(block.begin(), block.end(), T(0));
    for (int64_t r = i; r < std::min(rows, i + 64); ++r) kernels.add(n, g + r * ld, block.data());
    kernels.add(n, block.data(), to);
  }
}

// long because: one check after the other, each with its message
template <class T>
void backward(Call& c) {
  const Layer l = layer_of(c, kShift);
  const int64_t mask = c.integer(kMask), n = l.hidden, p = l.state, ld = l.ld;
  if (l.rows == 0) {
    for (int k = 0; k < 8; ++k) fill(c.out(k), Scalar(0));
    return;
  }
  auto wants = [&](int k) { return mask >> k & 1 && c.out(k).numel > 0; };
  Operands<T> in(c, kShift);
  Wide<T> to(c, 8);
  const auto& kernels = row_kernels<T>();
  TensorRef grads[3], saved[4];
  for (int k = 0; k < 3; ++k) grads[k] = dense<T>(c.optional_tensor(k));
  for (int k = 0; k < 4; ++k) saved[k] = dense<T>(&c.tensor(kOut + k));
  const T *dout = data<T>(grads[0]), *dhn = data<T>(grads[1]), *dcn = data<T>(grads[2]);
  const T *out = data<T>(saved[0]), *gates = data<T>(saved[1]), *cells = data<T>(saved[2]), *raw = data<T>(saved[3]);
  auto make = [&](int64_t rows, int64_t columns) {
    int64_t shape[] = {rows, columns};
    return empty(shape, sizeof(T) == 4 ? DType::Float32 : DType::Float64);
  };
  const bool lstm = l.mode == Mode::LSTM, gru = l.mode == Mode::GRU;
  TensorRef sums = make(l.rows, ld), states = make(l.batch, p), dcell = make(lstm ? l.batch : 0, n);
  TensorRef before = make(wants(kWhh) ? l.rows : 0, p), totals = make(l.projected() ? l.rows : 0, p);
  TensorRef unprojected = make(l.projected() ? l.batch : 0, n);
  T *dg = sums->ptr<T>(), *dh = states->ptr<T>(), *dc = dcell->ptr<T>(), *h_before = before->ptr<T>();
  T *total = totals->ptr<T>(), *draw = unprojected->ptr<T>();
  Operand<T> state(in[kWhh], gru ? 2 * n : l.gates, p, p, 1, l.steps), fresh, project;
  if (gru) fresh = Operand<T>(in[kWhh] + 2 * n * p, n, p, p, 1, l.steps);
  if (l.projected()) project = Operand<T>(in[kWhr], p, n, n, 1, l.steps);
  {
    LockRelease lock(2 * work_of(l));
    state.pack(), gru ? fresh.pack() : void(), l.projected() ? project.pack() : void();
    dhn ? (void)std::copy_n(dhn, l.batch * p, dh) : (void)std::fill_n(dh, l.batch * p, T(0));
    if (lstm) dcn ? (void)std::copy_n(dcn, l.batch * n, dc) : (void)std::fill_n(dc, l.batch * n, T(0));
    // the row of the step before for sequence b, or null at the sequence's first step
    auto earlier = [&](int64_t t, int64_t b) {
      const int64_t s = l.reverse ? t + 1 : t - 1;
      return s < 0 || s >= l.steps || b >= l.batch_sizes[s] ? int64_t(-1) : l.offsets[s] + b;
    };
    auto state_before = [&](int64_t t, int64_t b, const T* all, const T* first, int64_t width) -> const T* {
      const int64_t row = earlier(t, b);
      return row >= 0 ? all + row * width : first ? first + b * width : nullptr;
    };
    walk(l, true, [&](int64_t t, int64_t b, int64_t m, int64_t row) {
      T *d = dh + b * p, *g = dg + row * ld;
      if (dout) kernels.add(m * p, dout + row * p, d);
      if (h_before)
        for (int64_t i = 0; i < m && wants(kWhh); ++i) {
          const T* h = state_before(t, b + i, out, in[kH0], p);
          h ? (void)std::copy_n(h, p, h_before + (row + i) * p) : (void)std::fill_n(h_before + (row + i) * p, p, T(0));
        }
      switch (l.mode) {
        case Mode::LSTM: {
          const T* dhidden = d;
          if (l.projected()) {
            std::copy_n(d, m * p, total + row * p);
            project.multiply(m, d, p, draw + b * n, n, {});
            dhidden = draw + b * n;
          }
          for (int64_t i = 0; i < m; ++i)
            kernels.lstm_back(n, gates + (row + i) * ld, cells + (row + i) * n,
                              state_before(t, b + i, cells, in[kC0], n), dhidden + i * n, dc + (b + i) * n, g + i * ld);
          break;
        }
        case Mode::GRU:
          for (int64_t i = 0; i < m; ++i)
            kernels.gru_back(n, gates + (row + i) * ld, state_before(t, b + i, out, in[kH0], n), d + i * n, g + i * ld);
          fresh.multiply(m, g + 3 * n, ld, d, p, {1, 1});
          break;
        case Mode::Tanh: kernels.tanh_back(m * n, out + row * n, d, g); break;
        case Mode::Relu: kernels.relu_back(m * n, out + row * n, d, g); break;
      }
      state.multiply(m, g, ld, d, p, {1, gru ? T(1) : T(0)});
    });
    if (wants(kH0)) std::copy_n(dh, l.batch * p, to[kH0]);
    if (wants(kC0)) std::copy_n(dc, l.batch * n, to[kC0]);
    if (wants(kInput)) gemm<T>(l.rows, l.inputs, l.gates, dg, ld, 1, in[kWih], l.inputs, 1, to[kInput], l.inputs);
    if (wants(kWih)) gemm<T>(l.gates, l.inputs, l.rows, dg, 1, ld, in[kInput], l.inputs, 1, to[kWih], l.inputs);
    const int64_t common = gru ? 2 * n : l.gates;
    if (wants(kWhh)) {
      gemm<T>(common, p, l.rows, dg, 1, ld, h_before, p, 1, to[kWhh], p);
      if (gru) gemm<T>(n, p, l.rows, dg + 3 * n, 1, ld, h_before, p, 1, to[kWhh] + common * p, p);
    }
    if (wants(kWhr)) gemm<T>(p, n, l.rows, total, 1, p, raw, n, 1, to[kWhr], n);
    if (wants(kBih) || wants(kBhh)) {
      std::vector<T> sum(static_cast<size_t>(ld));
      column_sums(dg, l.rows, ld, ld, sum.data());
      if (wants(kBih)) std::copy_n(sum.data(), l.gates, to[kBih]);
      if (wants(kBhh)) {
        std::copy_n(sum.data(), common, to[kBhh]);
        if (gru) std::copy_n(sum.data() + 3 * n, n, to[kBhh] + common);
      }
    }
  }
  to.round();
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
}  // namespace flambeau

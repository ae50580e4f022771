// A recurrent layer's results: the input's share of every gate in one product, then each step's product with the state,
// and its gates.
#include "recurrent_layer.h"

namespace flambeau::recurrent {

template <class T>
static std::vector<T> joined_bias(const Layer& l, const T* ih, const T* hh) {
  std::vector<T> bias;
  if (!ih && !hh) return bias;
  bias.assign(size_t(l.gates), T(0));
  const int64_t common = l.mode == Mode::GRU ? 2 * l.hidden : l.gates;  // GRU's r stands before the state's share of n
  for (int64_t j = 0; ih && j < l.gates; ++j) bias[j] += ih[j];
  for (int64_t j = 0; hh && j < common; ++j) bias[j] += hh[j];
  return bias;
}

// The input's share of all gates, with the biases.
template <class T>
static void input_shares(DType given, const Layer& l, Weight<T> weight, Operand<T>& input, const T* x, const T* bias,
                         T* gates) {
  if (given == DType::BFloat16 && multiplies_bfloat16() && !weight.halves)
    return large_product<T>(given, l.rows, l.gates, l.inputs, x, l.inputs, 1, weight.wide, 1, l.inputs, gates, l.ld,
                            bias);
  input.pack();
  parallel_for(l.rows, input.packed() ? std::max<int64_t>(1, (1 << 19) / (l.gates * l.inputs)) : l.rows,
               [&](int64_t row, int64_t end) {
    input.multiply(0, end - row, x + row * l.inputs, l.inputs, gates + row * l.ld, l.ld, {1, 0, bias});
  });
}

// long because: every step of the walk uses the operands, packed once before it, and the places of all results
template <class T>
void forward(Call& c) {
  const Layer& l = c.handed<Layer>();
  if (l.rows == 0) {
    for (int k = 1; k < 3; ++k) fill(c.out(k), Scalar(0));
    return;
  }
  // few sequences read the weights at each step, as they are; more of them repay widening these once
  const bool few = is_half(c.tensor(kInput).dtype) && l.batch <= kFewRows;
  const int halves = few ? 1 << kWhh | 1 << kWhr | (l.rows <= kFewRows ? 1 << kWih : 0) : 0;
  Operands<T> in(c, 0, halves);
  Wide<T> to(c, 6);
  const auto& kernels = recurrent_kernels<T>();
  const int64_t n = l.hidden, p = l.state, ld = l.ld;
  const bool gru = l.mode == Mode::GRU, gated = gru || l.mode == Mode::LSTM;
  T *out = to[0], *h = to[1], *cell = to[2], *gates = gated ? to[3] : out, *cells = to[4], *raw = to[5];
  const Parts parts = parts_of(l);
  Operand<T> state(in.weight(kWhh), p, n, gru ? 2 : l.gates / n, 1, p, l.batch, l.steps, parts), fresh, project;
  if (gru) fresh = Operand<T>(in.weight(kWhh) + 2 * n * p, p, n, 1, 1, p, l.batch, l.steps, parts);
  if (l.projected()) project = Operand<T>(in.weight(kWhr), n, p, 1, 1, n, l.batch, l.steps, parts);
  // packed where many rows meet it and a panel stays in the first two caches; otherwise gemm chooses the way
  const FloatParts* by = sizeof(T) == 4 ? parts_of_products() : nullptr;
  const bool packed = l.rows >= 64 && l.inputs <= 1024 &&
                      !gemm_by_parts_pays(by, l.rows, l.gates, l.inputs, l.inputs, 1, 1, l.inputs);
  Operand<T> input(in.weight(kWih), l.inputs, l.gates, 1, 1, l.inputs, l.rows, packed ? l.steps : 1);
  const std::vector<T> bias = joined_bias(l, in[kBih], in[kBhh]);
  {
    LockRelease lock(work_of(l));
    state.pack(), gru ? fresh.pack() : void(), l.projected() ? project.pack() : void();
    in[kH0] ? (void)std::copy_n(in[kH0], l.batch * p, h) : (void)std::fill_n(h, l.batch * p, T(0));
    if (l.mode == Mode::LSTM)
      in[kC0] ? (void)std::copy_n(in[kC0], l.batch * n, cell) : (void)std::fill_n(cell, l.batch * n, T(0));
    input_shares(c.tensor(kInput).dtype, l, in.weight(kWih), input, in[kInput], bias.empty() ? nullptr : bias.data(),
                 gates);
    walk(l, parts, [&](auto&& each, int64_t begin, int64_t end) {
      steps(l, false, begin, end, [&](int64_t, int64_t m, int64_t row) {
        T *g = gates + row * ld, *y = out + row * p, *before = h + begin * p, *made = l.projected() ? raw + row * n : y;
        each([&](int64_t part) {
          const int64_t first = parts.begin(part, n), count = parts.begin(part + 1, n) - first;
          state.multiply(part, m, before, p, g, ld, {1, 1});
          if (gru) fresh.multiply(part, m, before, p, g + 3 * n, ld, {1, 0, in[kBhh] ? in[kBhh] + 2 * n : nullptr});
          for (int64_t i = 0; i < m; ++i) {
            T *of_row = g + i * ld + first, *result = made + i * n + first;
            switch (l.mode) {
              case Mode::LSTM:
                kernels.lstm(count, n, of_row, cell + (begin + i) * n + first, cells + (row + i) * n + first, result);
                break;
              case Mode::GRU: kernels.gru(count, n, of_row, before + i * p + first, result); break;
              case Mode::Tanh: kernels.tanh(count, result); break;
              case Mode::Relu: kernels.relu(count, result); break;
            }
          }
        });
        if (l.projected()) each([&](int64_t part) { project.multiply(part, m, made, n, y, p, {}); });
        std::copy_n(y, m * p, before);
      });
    });
  }
  to.round();
}

template void forward<float>(Call&);
template void forward<double>(Call&);

}  // namespace flambeau::recurrent

// The gradients of a recurrent layer: the walk back over its steps, and the sums over all of them afterwards.
#include "recurrent_layer.h"

namespace flambeau::recurrent {

template <class T>
static void column_sums(const T* g, int64_t rows, int64_t ld, int64_t n, T* to) {
  const auto& kernels = recurrent_kernels<T>();
  std::fill_n(to, n, T(0));
  std::vector<T> block(static_cast<size_t>(n));
  for (int64_t i = 0; i < rows; i += 64) {  // blocks, so that the error grows with rows / 64
    std::fill(block.begin(), block.end(), T(0));
    for (int64_t r = i; r < std::min(rows, i + 64); ++r) kernels.add(n, g + r * ld, block.data());
    kernels.add(n, block.data(), to);
  }
}

// The gradients of the input, the weights and the biases are sums over all steps: products of what the walk has
// left.
template <class T, class Wants>
static void sum_over_steps(DType given, const Layer& l, const Operands<T>& in, Wide<T>& to, Wants&& wants, const T* dg,
                           const T* h_before, const T* total, const T* raw) {
  const bool gru = l.mode == Mode::GRU;
  const int64_t n = l.hidden, p = l.state, ld = l.ld;
  const int64_t m = l.inputs;
  if (wants(kInput)) large_product<T>(given, l.rows, m, l.gates, dg, ld, 1, in[kWih], m, 1, to[kInput], m);
  if (wants(kWih)) large_product<T>(given, l.gates, m, l.rows, dg, 1, ld, in[kInput], m, 1, to[kWih], m);
  const int64_t common = gru ? 2 * n : l.gates;
  if (wants(kWhh)) {
    large_product<T>(given, common, p, l.rows, dg, 1, ld, h_before, p, 1, to[kWhh], p);
    if (gru) large_product<T>(given, n, p, l.rows, dg + 3 * n, 1, ld, h_before, p, 1, to[kWhh] + common * p, p);
  }
  if (wants(kWhr)) large_product<T>(given, p, n, l.rows, total, 1, p, raw, n, 1, to[kWhr], n);
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

// long because: every step of the walk uses the operands, packed once before it, and the sums it leaves for after it
template <class T>
void backward(Call& c) {
  const Layer& l = c.handed<Layer>();
  const int64_t mask = c.integer(kMask), n = l.hidden, p = l.state, ld = l.ld;
  if (l.rows == 0) {
    for (int k = 0; k < 8; ++k) fill(c.out(k), Scalar(0));
    return;
  }
  auto wants = [&](int k) { return mask >> k & 1 && c.out(k).numel > 0; };
  Operands<T> in(c, kShift);
  Wide<T> to(c, 8);
  const auto& kernels = recurrent_kernels<T>();
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
  const Parts parts = parts_of(l);
  Operand<T> state(in.weight(kWhh), gru ? 2 * n : l.gates, p, 1, p, 1, l.batch, l.steps, parts), fresh, project;
  if (gru) fresh = Operand<T>(in.weight(kWhh) + 2 * n * p, n, p, 1, p, 1, l.batch, l.steps, parts);
  if (l.projected()) project = Operand<T>(in.weight(kWhr), p, n, 1, n, 1, l.batch, l.steps, parts);
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
    // what reaches the states of a step from outside of it, and what is kept of them for the sums over all steps
    auto arrive = [&](int64_t part, int64_t t, int64_t b, int64_t m, int64_t row) {
      const int64_t first = parts.begin(part, p), count = parts.begin(part + 1, p) - first;
      for (int64_t i = 0; i < m; ++i) {
        T* d = dh + (b + i) * p + first;
        if (dout) kernels.add(count, dout + (row + i) * p + first, d);
        if (l.projected()) std::copy_n(d, count, total + (row + i) * p + first);
        if (!wants(kWhh)) continue;
        const T* h = state_before(t, b + i, out, in[kH0], p);
        T* kept = h_before + (row + i) * p + first;
        h ? (void)std::copy_n(h + first, count, kept) : (void)std::fill_n(kept, count, T(0));
      }
    };
    auto activations = [&](int64_t part, int64_t t, int64_t b, int64_t m, int64_t row) {
      const int64_t first = parts.begin(part, n), count = parts.begin(part + 1, n) - first;
      for (int64_t i = 0; i < m; ++i) {
        T *g = dg + (row + i) * ld + first, *d = (l.projected() ? draw : dh) + (b + i) * n + first;
        const T *made = out + (row + i) * n + first, *used = gates + (row + i) * ld + first;
        auto before = [&](const T* all, const T* start) {
          const T* at = state_before(t, b + i, all, start, n);
          return at ? at + first : nullptr;
        };
        switch (l.mode) {
          case Mode::LSTM:
            kernels.lstm_back(count, n, used, cells + (row + i) * n + first, before(cells, in[kC0]), d,
                              dc + (b + i) * n + first, g);
            break;
          case Mode::GRU: kernels.gru_back(count, n, used, before(out, in[kH0]), d, g); break;
          case Mode::Tanh: kernels.tanh_back(count, made, d, g); break;
          case Mode::Relu: kernels.relu_back(count, made, d, g); break;
        }
      }
    };
    walk(l, parts, [&](auto&& each, int64_t begin, int64_t end) {
      int64_t behind = 0;  // sequences of the step that was left last, whose sums are still to be taken to the states
      const T* left = nullptr;
      T* d = dh + begin * p;
      auto carry = [&](int64_t part) {
        if (!behind) return;
        if (gru) fresh.multiply(part, behind, left + 3 * n, ld, d, p, {1, 1});
        state.multiply(part, behind, left, ld, d, p, {1, gru ? T(1) : T(0)});
      };
      steps(l, true, begin, end, [&](int64_t t, int64_t m, int64_t row) {
        each([&](int64_t part) {
          carry(part);
          arrive(part, t, begin, m, row);
          if (!l.projected()) activations(part, t, begin, m, row);
        });
        if (l.projected())
          each([&](int64_t part) {
            project.multiply(part, m, d, p, draw + begin * n, n, {});
            activations(part, t, begin, m, row);
          });
        behind = m, left = dg + row * ld;
      });
      if (wants(kH0)) each(carry);
    });
    if (wants(kH0)) std::copy_n(dh, l.batch * p, to[kH0]);
    if (wants(kC0)) std::copy_n(dc, l.batch * n, to[kC0]);
    sum_over_steps(c.tensor(kShift + kInput).dtype, l, in, to, wants, dg, h_before, total, raw);
  }
  to.round();
}

template void backward<float>(Call&);
template void backward<double>(Call&);

}  // namespace flambeau::recurrent

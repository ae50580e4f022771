// What both directions of a recurrent layer share: its sizes, what they read and write, products with a fixed operand,
// and the walk over the steps.
#pragma once
#include <algorithm>
#include <string_view>
#include <vector>

#include "../core/call.h"
#include "../core/machine.h"
#include "../core/team.h"
#include "gemm.h"
#include "half_rows.h"
#include "recurrent.h"

namespace flambeau {

template <class T>
const RecurrentKernels<T>& recurrent_kernels() {
  const auto& table = [] () -> auto& {
    if constexpr (sizeof(T) == 4) return recurrent_kernels_f32;
    else return recurrent_kernels_f64;
  }();
  static const auto& chosen = best_loops(table);
  return chosen;
}

namespace recurrent {

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

// Reads and checks the arguments; `shift`: where the forward's begin.
Layer layer_of(const Call& c, int shift);
void need_shape(const Call& c, const Tensor* t, const char* name, std::initializer_list<int64_t> shape);

// Numbers of a weight: in the compute type, or halves that stay as they are.
template <class T>
struct Weight {
  const T* wide = nullptr;
  const uint16_t* halves = nullptr;
  DType dtype{};
  Weight operator+(int64_t elements) const {
    return wide ? Weight{wide + elements, nullptr, dtype} : Weight{nullptr, halves + elements, dtype};
  }
};

// A fixed right operand B[k, n] that meets another left one at each step. For more than one step it is packed once;
// halves, which lie along k, are read as they are.
template <class T>
struct Operand {
  Weight<T> b;
  int64_t k, n, ks, ns;
  TensorRef memory;
  const T* panels = nullptr;
  Team* team = nullptr;  // threads that share the columns of each product

  Operand() = default;
  Operand(Weight<T> b, int64_t k, int64_t n, int64_t ks, int64_t ns, int64_t steps) : b(b), k(k), n(n), ks(ks), ns(ns) {
    if (steps < 2 || !k || b.halves) return;
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
        kernels.pack(memory->ptr<T>() + j * nr * k, width(j), b.wide + j * nr * ns, ns, ks, std::min(nr, n - j * nr),
                     k);
    });
  }
  int width(int64_t panel) const {  // of a panel, in whole vectors
    const auto& kernels = gemm_kernels<T>();
    const int64_t cols = std::min<int64_t>(kernels.nr, n - panel * kernels.nr);
    return int((cols + kernels.width - 1) / kernels.width * kernels.width);
  }
  // C[m, n] = A B + beta C + bias; the tiles of A are of even height
  void multiply(int64_t m, const T* a, int64_t ars, T* c, int64_t crs, const Epilogue<T>& e) const {
    if constexpr (sizeof(T) == 4)
      if (b.halves) return half_rows(b.dtype, m, n, k, a, ars, b.halves, ns, c, crs, e);
    if (!panels) return gemm<T>(m, n, k, a, ars, 1, b.wide, ks, ns, c, crs, e);
    const int64_t nr = gemm_kernels<T>().nr, count = (n + nr - 1) / nr;
    if (!team) return multiply_panels(0, count, m, a, ars, c, crs, e);
    team->share(count, std::max<int64_t>(1, (1 << 15) / (nr * k * m)),
                [&](int64_t from, int64_t to) { multiply_panels(from, to, m, a, ars, c, crs, e); });
  }
  void multiply_panels(int64_t from, int64_t to, int64_t m, const T* a, int64_t ars, T* c, int64_t crs,
                       const Epilogue<T>& e) const {
    const auto& kernels = gemm_kernels<T>();
    const int64_t nr = kernels.nr, tiles = (m + kernels.mr - 1) / kernels.mr, mr = (m + tiles - 1) / tiles;
    for (int64_t j = from * nr; j < std::min(n, to * nr); j += nr) {
      Epilogue<T> tile = e;
      if (tile.bias_col) tile.bias_col += j;
      for (int64_t i = 0; i < m; i += mr)
        kernels.direct(std::min(mr, m - i), std::min(nr, n - j), k, a + i * ars, ars, 1, panels + j * k,
                       width(j / nr), 1, c + i * crs + j, crs, tile, nullptr);
    }
  }
};

// The large products, over the rows of all steps: those of halves where the processor is at its fastest.
template <class T>
void large_product(DType given, int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b,
                   int64_t brs, int64_t bcs, T* c, int64_t crs, const T* bias = nullptr) {
  if constexpr (sizeof(T) == 4) product_of_halves(given, m, n, k, a, ars, acs, b, brs, bcs, c, crs, bias);
  else gemm<T>(m, n, k, a, ars, acs, b, brs, bcs, c, crs, {1, 0, bias});
}

// Sequences [begin, end) of all steps.
template <class F>
void steps(const Layer& l, bool backwards, int64_t begin, int64_t end, F& step) {
  for (int64_t s = 0; s < l.steps; ++s) {
    interruption_point();
    const int64_t t = l.reverse != backwards ? l.steps - 1 - s : s;
    const int64_t m = std::min(end, l.batch_sizes[t]) - begin;
    if (m > 0) step(t, begin, m, l.offsets[t] + begin);
  }
}
// Calls step(t, first sequence, number of sequences, first row) for all steps, in their order or backwards, for each
// part of the batch. Threads share the batch or, where it is too small for that, the columns of the products `by`.
template <class T, class F>
void walk(const Layer& l, bool backwards, std::initializer_list<Operand<T>*> by, F&& step) {
  const int64_t work = l.rows * l.gates * l.state, enough = 1 << 18;
  // fewer than 4 rows leave a thread waiting for its own sums
  const int64_t grain = l.steps == 1 || work < enough ? l.batch : std::max<int64_t>(4, l.batch * (enough / 2) / work);
  const bool narrow = l.steps > 1 && l.batch < 8 && l.gates * l.state >= 1 << 16;
  if (narrow)
    return with_team([&](Team& team) {
      for (Operand<T>* o : by) o->team = &team;
      steps(l, backwards, 0, l.batch, step);
    });
  parallel_for(l.batch, std::max<int64_t>(1, grain),
               [&](int64_t begin, int64_t end) { steps(l, backwards, begin, end, step); });
}
template <class T>
TensorRef dense(const Tensor* t) {
  if (!t) return {};
  return contiguous(*to_dtype(*t, sizeof(T) == 4 ? DType::Float32 : DType::Float64));
}
template <class T>
T* data(const TensorRef& t) { return t ? t->ptr<T>() : nullptr; }

// What both directions read, in the compute type; the weights `halves` names (bit k) stay halves.
template <class T>
struct Operands {
  TensorRef refs[8];
  bool kept[8] = {};
  Operands(const Call& c, int shift, int halves = 0) {
    for (int k = kInput; k <= kWhr; ++k) {
      const Tensor* t = c.optional_tensor(shift + k);
      kept[k] = t && halves >> k & 1;
      refs[k] = kept[k] ? contiguous(*t) : dense<T>(t);
    }
  }
  const T* operator[](int k) const { return data<T>(refs[k]); }
  Weight<T> weight(int k) const {
    if (!kept[k]) return {(*this)[k], nullptr, {}};
    return {nullptr, refs[k]->template ptr<uint16_t>(), refs[k]->dtype};
  }
};

inline int64_t work_of(const Layer& l) { return l.rows * l.gates * (l.inputs + l.state) / 16; }

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

enum Saved { kOut = kShift + kReverse + 1, kGates, kCells, kRaw, kMask };

template <class T> void forward(Call& c);
template <class T> void backward(Call& c);

}  // namespace recurrent
}  // namespace flambeau

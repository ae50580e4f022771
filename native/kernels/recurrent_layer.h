// What both directions of a recurrent layer share: its sizes, what they read and write, products with a fixed operand,
// and the walk over the steps.
#pragma once
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/call.h"
#include "../core/machine.h"
#include "../core/team.h"
#include "gemm.h"
#include "gemm_parts.h"
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

// How threads share a layer's units (or any other columns): part k of them has [begin(k), begin(k + 1)), in whole
// vectors.
struct Parts {
  int64_t count = 1;
  int64_t begin(int64_t part, int64_t n) const { return part == count ? n : n * part / count / 16 * 16; }
};

// A fixed right operand B[k, blocks n] that meets another left one at each step; each part has its columns of every
// block of n. For more than one step it is packed once, in three parts where that is faster; halves, which lie along k,
// are read as they are.
template <class T>
class Operand {
 public:
  Operand() = default;
  // `rows`: of the left operand at most
  Operand(Weight<T> b, int64_t k, int64_t n, int64_t blocks, int64_t ks, int64_t ns, int64_t rows, int64_t steps,
          Parts parts = {})
      : b_(b), k_(k), n_(n * blocks), ks_(ks), ns_(ns) {
    if (!b.halves && (steps < 2 || !k)) return;
    const FloatParts* by = sizeof(T) == 4 && !b.halves ? exact_parts() : nullptr;
    if (keeping_parts_pays(by, rows, n_, k, ks, ns)) split_ = by;
    if (parts.count == 1) n *= std::exchange(blocks, 1);
    for (int64_t part = 0; part < parts.count; ++part) {
      for (int64_t block = 0; block < blocks; ++block)
        add_panels(block * n + parts.begin(part, n), block * n + parts.begin(part + 1, n));
      ends_.push_back(panels_.size());
    }
    if (b.halves) return;
    int64_t shape[] = {split_ ? split_->size(columns_, k) / 2 : k * columns_};
    memory_ = empty(shape, sizeof(T) == 4 ? DType::Float32 : DType::Float64);
  }
  bool packed() const { return !panels_.empty() && memory_; }
  void pack() {
    if (!packed()) return;
    parallel_for(int64_t(panels_.size()), std::max<int64_t>(1, (1 << 15) / (gemm_kernels<T>().nr * k_)),
                 [&](int64_t j, int64_t end) {
      for (; j < end; ++j) {
        const Panel& p = panels_[size_t(j)];
        if constexpr (sizeof(T) == 4)
          if (split_) {
            split_parts(*split_, p.columns, k_, b_.wide + p.column * ns_, ks_, ns_, parts_of(p));
            continue;
          }
        gemm_kernels<T>().pack(memory_->template ptr<T>() + p.at * k_, p.width, b_.wide + p.column * ns_, ns_, ks_,
                               p.columns, k_);
      }
    });
  }
  // C[m, n] = A B + beta C + bias, in the part's columns; the tiles of A are of even height
  void multiply(int64_t part, int64_t m, const T* a, int64_t ars, T* c, int64_t crs, const Epilogue<T>& e) const {
    if (panels_.empty()) return gemm<T>(m, n_, k_, a, ars, 1, b_.wide, ks_, ns_, c, crs, e);
    for (size_t j = part ? ends_[size_t(part) - 1] : 0; j < ends_[size_t(part)]; ++j) {
      const Panel& p = panels_[j];
      Epilogue<T> of_panel = e;
      if (of_panel.bias_col) of_panel.bias_col += p.column;
      multiply_panel(p, m, a, ars, c + p.column, crs, of_panel);
    }
  }

 private:
  struct Panel {
    int64_t column, columns;  // of B
    int64_t at;               // its place in memory, in columns
    int width;                // in memory: whole vectors
  };
  uint16_t* parts_of(const Panel& p) const { return memory_->template ptr<uint16_t>() + split_->size(p.at, k_); }
  // As few panels as there can be, of nearly equal width: a narrow one would wait for the loads of A.
  void add_panels(int64_t begin, int64_t end) {
    const auto& kernels = gemm_kernels<T>();
    const int64_t step = split_ ? 2 * FloatParts::kSide : kernels.width, vectors = (end - begin + step - 1) / step;
    const int64_t most = b_.halves || split_ ? vectors : kernels.nr / step, panels = (vectors + most - 1) / most;
    for (int64_t k = 0; k < panels; ++k) {
      const int64_t width = (vectors * (k + 1) / panels - vectors * k / panels) * step;
      const int64_t columns = std::min(width, end - begin);
      panels_.push_back({begin, columns, columns_, int(width)});
      columns_ += width;
      begin += columns;
    }
  }
  void multiply_panel(const Panel& p, int64_t m, const T* a, int64_t ars, T* c, int64_t crs,
                      const Epilogue<T>& e) const {
    if constexpr (sizeof(T) == 4) {
      if (b_.halves)
        return half_rows(b_.dtype, m, p.columns, k_, a, ars, b_.halves + p.column * ns_, ns_, c, crs, e);
      if (split_)
        return gemm_with_parts(*split_, m, p.columns, k_, a, ars, b_.wide + p.column * ns_, ks_, ns_, parts_of(p), c,
                               crs, e);
    }
    const auto& kernels = gemm_kernels<T>();
    const T* panel = memory_->template ptr<T>() + p.at * k_;
    const int64_t tiles = (m + kernels.mr - 1) / kernels.mr, mr = (m + tiles - 1) / tiles;
    for (int64_t i = 0; i < m; i += mr)
      kernels.tile(k_, a + i * ars, ars, 1, panel, p.width, c + i * crs, crs, int(std::min(mr, m - i)),
                   int(p.columns), e);
  }

  Weight<T> b_;
  int64_t k_ = 0, n_ = 0, ks_ = 0, ns_ = 0;
  const FloatParts* split_ = nullptr;  // into three parts, if at all
  int64_t columns_ = 0;  // of all panels, in whole vectors
  std::vector<Panel> panels_;
  std::vector<size_t> ends_;  // of each part's panels
  TensorRef memory_;
};

// The large products, over the rows of all steps: those of halves where the processor is at its fastest.
template <class T>
void large_product(DType given, int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b,
                   int64_t brs, int64_t bcs, T* c, int64_t crs, const T* bias = nullptr) {
  if constexpr (sizeof(T) == 4) product_of_halves(given, m, n, k, a, ars, acs, b, brs, bcs, c, crs, bias);
  else gemm<T>(m, n, k, a, ars, acs, b, brs, bcs, c, crs, {1, 0, bias});
}

// Calls step(t, number of sequences, first row) for all steps of sequences [begin, end), in their order or backwards.
template <class F>
void steps(const Layer& l, bool backwards, int64_t begin, int64_t end, F&& step) {
  for (int64_t s = 0; s < l.steps; ++s) {
    interruption_point();
    const int64_t t = l.reverse != backwards ? l.steps - 1 - s : s;
    const int64_t m = std::min(end, l.batch_sizes[t]) - begin;
    if (m > 0) step(t, m, l.offsets[t] + begin);
  }
}
// Few sequences: threads share the units of each step. More of them: the sequences.
Parts parts_of(const Layer& l);
// Calls body(each, begin, end), which walks with sequences [begin, end) and calls each(f) for what f(part) does in all
// parts of a step, which may be done side by side.
template <class F>
void walk(const Layer& l, Parts parts, F&& body) {
  if (parts.count > 1)
    return with_team(l.steps, [&](Team& team) {
      auto each = [&](auto&& f) {
        team.share(parts.count, 1, [&](int64_t part, int64_t end) { for (; part < end; ++part) f(part); });
      };
      body(each, 0, l.batch);
    });
  // all that a thread has at once, since every walk reads the weights; fewer than 4 leave it waiting for its own sums
  const int64_t threads = num_threads(), share = std::max<int64_t>(4, (l.batch + threads - 1) / threads);
  const int64_t grain = l.steps == 1 || l.rows * l.gates * l.state < 1 << 18 ? l.batch : share;
  parallel_for(l.batch, std::max<int64_t>(1, grain),
               [&](int64_t begin, int64_t end) { body([](auto&& f) { f(0); }, begin, end); });
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

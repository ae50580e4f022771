// A pointwise call while it is worked out: what its steps hand to each other.
//
// elementwise.cpp takes the short path or calls the steps of the general one: plan (pointwise_plan.cpp) decides dtypes,
// shape and layout, the CPU's compute (pointwise_run.cpp) feeds the loop.
#pragma once
#include "../core/device_table.h"
#include "../core/op.h"
#include "cast.h"
#include "elementwise.h"
#include "strided.h"

namespace flambeau {

namespace pointwise {

inline constexpr int64_t kGrain = 32768;  // element visits that pay for a second thread
// A row's weight where the time depends on the values: may take seconds for one element.
inline constexpr int kByValue = 255;
inline constexpr int kMaxOperands = 6;  // with the result
inline constexpr int kMaxScalars = 8;
static_assert(kNumberPlace < kMaxScalars);

inline Scalar number_of(const Value& v) {
  if (v.is_number()) return v.scalar();
  Scalar s;
  if (v.tag == Tag::Str) s.i = v.str.size ? v.str.data[0] : 0;
  else s.category = kAbsent;
  return s;
}
inline void read_scalars(const Call& c, const ElementwiseRow& row, Scalar* scalars) {
  for (int k = row.operands; k < c.nargs && k - row.operands < kMaxScalars; ++k)
    scalars[k - row.operands] = number_of(c.args[k]);
}

inline bool same_sizes(const Tensor& a, const Tensor& b) {
  if (a.ndim != b.ndim || a.numel != b.numel) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != b.sizes[d]) return false;
  return true;
}

using Space = Strided<kMaxOperands>;

struct Operand {
  const Tensor* tensor = nullptr;  // null: a number, or absent
  bool absent = false, constant = false;
  char* data = nullptr;
  DType dtype = DType::Undefined, loop_dtype = DType::Undefined;
  int64_t item = 0, loop_item = 0;
  Cast cast;
  alignas(16) char number[16];
};

struct Plan {
  Space space;
  Operand operand[kMaxOperands];  // [0]: the result
  int count = 0;                  // with the result
  LoopFn loop = nullptr;
  bool broadcasts = false;        // the loop takes operands of stride 0
  Scalar scalars[kMaxScalars];
};

struct Shape {
  int ndim = 0;
  int64_t size[kMaxDims];
  Dims dims() const { return {size, size_t(ndim)}; }
  void broadcast(const Tensor& t, const char* op) {
    if (t.ndim > ndim) {
      int added = t.ndim - ndim;
      std::move_backward(size, size + ndim, size + t.ndim);
      std::fill_n(size, added, int64_t(1));
      ndim = t.ndim;
    }
    for (int d = 1; d <= t.ndim; ++d) {
      int64_t &mine = size[ndim - d], theirs = t.sizes[t.ndim - d];
      if (mine == theirs || theirs == 1) continue;
      if (mine != 1)
        runtime_error(op, ": shapes do not broadcast: dimension ", ndim - d, " has sizes ", mine, " and ", theirs, ", "
                      "which must be equal or 1");
      mine = theirs;
    }
  }
};

}  // namespace pointwise

// What is known of a call before its loop runs: `infer` of pointwise operators fills it, a device's kernel reads it.
struct Pointwise {
  const ElementwiseRow& row;
  pointwise::Plan plan;
  pointwise::Shape shape;
  DType compute = DType::Undefined, loop_out = DType::Undefined;
  DType compared = DType::Undefined;  // what comparisons round numbers to first
  Device device;
  Tensor* out = nullptr;
  std::vector<TensorRef> copies;  // operands that are read from elsewhere than where they stand
  explicit Pointwise(const ElementwiseRow& row) : row(row) {}
};

// A call of the short way (elementwise.cpp): contiguous operands of one shape and dtype, numbers, and what is absent.
struct ShortCall {
  const ElementwiseRow& row;
  DType dtype, compute, result;  // of the operands; of the loop; of the result
  int64_t numel;
  char* ptr[4];      // the result's first; null: absent
  int64_t stride[4];  // in bytes; 0: not a tensor
  alignas(16) char number[3][16];
  ShortCall(const ElementwiseRow& row) : row(row) {}  // the rest is written before it is read
};

namespace pointwise {

// Decides dtypes, shape and layout, and declares the result.
void infer(Call& c, Promote promote, Pointwise& w);
// The space of a call whose operands are bound, in bytes of their items. p.operand[0] is the result.
void prepare_space(Plan& p, const Shape& shape);
// Before a loop writes to a given `out`: throws where it overlaps itself or, badly, an operand; others become copies.
void check_overlap(Tensor& out, Plan& p, std::vector<TensorRef>& copies);
// What is left to decide before the CPU's loop can run: where each operand is read, in which order, and as what.
void prepare(Call& c, Pointwise& w);

}  // namespace pointwise
}  // namespace flambeau

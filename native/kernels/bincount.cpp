// _bincount: how often each number occurs among non-negative integers, or the sum of its weights.
#include <algorithm>
#include <atomic>

#include "options.h"
#include "scratch.h"
#include "steady.h"

namespace flambeau {
namespace {

constexpr int64_t kGrain = 1 << 16;

// _bincount(self, weights, minlength): self is a vector of int64, weights are None or floats in the same number
void infer_bincount(Call& c) {
  const Tensor& x = c.tensor(0);
  const Tensor* w = c.optional_tensor(1);
  if (x.is_meta()) not_implemented("bincount: the result's size depends on values, which a meta tensor does not have");
  if (x.ndim != 1 || x.dtype != DType::Int64) runtime_error(c.name(), ": expected a vector of int64");
  if (w && (w->ndim != 1 || w->numel != x.numel || (w->dtype != DType::Float32 && w->dtype != DType::Float64)))
    runtime_error(c.name(), ": expected one weight of float32 or float64 for each integer");
  if (c.integer(2) < 0) runtime_error(c.name(), ": minlength must not be negative, got ", c.integer(2));
}

// One more than the largest; throws where one is negative.
int64_t length_of(const int64_t* x, int64_t n) {
  std::atomic<int64_t> low{0}, high{-1};
  parallel_for(n, kGrain, [&](int64_t k, int64_t end) {
    int64_t least = 0, most = -1;
    for (; k < end; ++k) least = std::min(least, x[k]), most = std::max(most, x[k]);
    for (int64_t seen = low; least < seen && !low.compare_exchange_weak(seen, least);) {}
    for (int64_t seen = high; most > seen && !high.compare_exchange_weak(seen, most);) {}
  });
  if (low < 0) runtime_error("bincount: expected only non-negative integers, but one is ", low.load());
  if (high == INT64_MAX) runtime_error("bincount: ", high.load(), " is too large a number to count up to");
  return high + 1;
}

// Equal numbers in a row would wait for each other's sums, so four tables take turns.
void count_part(const int64_t* x, int64_t begin, int64_t end, int64_t size, int64_t* tables) {
  std::fill_n(tables, 4 * size, int64_t(0));
  for (int64_t k = begin; k < end; ++k) ++tables[(k & 3) * size + index_within(x + k, size)];
}
void count(const int64_t* x, int64_t n, int64_t size, int64_t* out) {
  std::fill_n(out, size, int64_t(0));
  if (size > 1 << 12 || n < 4 * size) {
    for (int64_t k = 0; k < n; ++k) ++out[index_within(x + k, size)];
    return;
  }
  const int64_t parts = (n + kGrain - 1) / kGrain;
  int64_t* const tables = scratch<int64_t>(kScratchA, parts * 4 * size);
  parallel_for(parts, 1, [&](int64_t part, int64_t last) {
    for (; part < last; ++part)
      count_part(x, part * kGrain, std::min(n, (part + 1) * kGrain), size, tables + part * 4 * size);
  });
  for (int64_t t = 0; t < parts * 4; ++t)
    for (int64_t k = 0; k < size; ++k) out[k] += tables[t * size + k];
  trim_scratch();
}
template <class T>
void add_weights(const int64_t* x, const T* w, int64_t n, int64_t size, T* out) {
  std::fill_n(out, size, T(0));
  for (int64_t k = 0; k < n; ++k) out[index_within(x + k, size)] += w[k];
}

// The result is made here: its size is known only now.
void cpu_bincount(Call& c) {
  TensorRef x = contiguous(c.tensor(0)), weights = c.has(1) ? contiguous(c.tensor(1)) : TensorRef();
  const int64_t n = x->numel, *numbers = x->ptr<int64_t>();
  int64_t size;
  {
    LockRelease lock(n / 4);
    size = std::max(c.integer(2), length_of(numbers, n));
  }
  Tensor& out = c.output({&size, 1}, weights ? weights->dtype : DType::Int64, x->device);
  if (size == 0) return;
  LockRelease lock(n);
  if (!weights) count(numbers, n, size, out.ptr<int64_t>());
  else if (weights->dtype == DType::Float32) add_weights(numbers, weights->ptr<float>(), n, size, out.ptr<float>());
  else add_weights(numbers, weights->ptr<double>(), n, size, out.ptr<double>());
}

const Primitives rows{{"_bincount", infer_bincount, cpu_bincount, Infer::ReadsValues}};

}  // namespace
}  // namespace flambeau

// Where elements would go in sorted rows.
#include <algorithm>

#include "reduce.h"

namespace flambeau {
namespace {

// searchsorted(sorted_sequence, self, out_int32, right): where each element would go
void infer_searchsorted(Call& c) {
  Tensor &sorted = c.tensor(0), &x = c.tensor(1);
  if (sorted.ndim == 0) runtime_error("searchsorted: expected boundaries of at least 1 dimension, got a 0-d tensor");
  if (sorted.ndim != 1 && (sorted.ndim != x.ndim || !std::equal(x.sizes, x.sizes + x.ndim - 1, sorted.sizes)))
    runtime_error("searchsorted: boundaries of shape ", shape_text(sorted.shape()),
                  " must be 1-dimensional or match the input ", shape_text(x.shape()),
                  " in all dimensions but the last");
  check_order(c, sorted);
  check_order(c, x);
  c.output(x.shape(), c.boolean(2) ? DType::Int32 : DType::Int64, x.device);
}
constexpr int kTogether = 8;    // searches that hide each other's waiting for memory
constexpr int64_t kFew = 64;    // so many boundaries are compared one after the other
constexpr int64_t kTile = 64;   // by so many elements at once

// How many numbers of an ascending row come before each of x: each step halves the row, without a branch, in all of
// the searches alike.
template <class T, class Before>
void search_together(const T* row, int64_t n, const T* x, int count, int64_t* found, Before before) {
  const T* at[kTogether];
  T of[kTogether];
  for (int k = 0; k < kTogether; ++k) at[k] = row, of[k] = x[k < count ? k : 0];
  for (int64_t left = n; left > 1;) {
    const int64_t half = left / 2;
    for (int k = 0; k < kTogether; ++k) at[k] += half & -int64_t(before(at[k][half - 1], of[k]));
    left -= half;
  }
  for (int k = 0; k < count; ++k) found[k] = at[k] - row + (n > 0 && before(*at[k], of[k]));
}
template <class T, class Before>
void count_few(const T* row, int64_t n, const T* x, int64_t count, int64_t* found, Before before) {
  T of[kTile] = {};
  LaneInt<T> sums[kTile] = {};
  std::copy_n(x, count, of);
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i < kTile; ++i) sums[i] += before(row[k], of[i]) ? 1 : 0;
  std::copy_n(sums, count, found);
}
// The places of `count` elements in one row.
template <class T, class Out, class Before>
void search_row(const T* row, int64_t n, const T* x, int64_t count, Out* out, Before before) {
  const int64_t block = n <= kFew && count >= kTile / 2 ? kTile : kTogether;
  int64_t found[kTile];
  for (int64_t i = 0; i < count; i += block) {
    const int64_t m = std::min(block, count - i);
    if (block == kTile) count_few(row, n, x + i, m, found, before);
    else search_together(row, n, x + i, int(m), found, before);
    std::copy_n(found, m, out + i);
  }
}
template <class T, class Out>
void search(const Tensor& sorted, const Tensor& x, Out* out, bool right) {
  const int64_t n = sorted.size(sorted.ndim - 1),
                per = sorted.ndim == 1 ? std::max<int64_t>(x.numel, 1) : x.size(x.ndim - 1);
  const T *s = sorted.ptr<T>(), *v = x.ptr<T>();
  auto below = [](T a, T b) { return (a < b) | ((b != b) & (a == a)); };  // NaN above all
  parallel_for(x.numel, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin, stop; i < end; i = stop) {
      const T* row = sorted.ndim == 1 ? s : s + i / per * n;
      stop = std::min(end, (i / per + 1) * per);
      if (right) search_row(row, n, v + i, stop - i, out + i, [&](T a, T b) { return !below(b, a); });
      else search_row(row, n, v + i, stop - i, out + i, below);
    }
  });
}
template <class T>
void search_into(const Tensor& sorted, const Tensor& x, Tensor& out, bool right) {
  if (out.dtype == DType::Int32) search<T>(sorted, x, out.ptr<int32_t>(), right);
  else search<T>(sorted, x, out.ptr<int64_t>(), right);
}
void cpu_searchsorted(Call& c) {
  if (!c.out().numel) return;
  const bool exact =
      category(c.tensor(0).dtype) <= Category::Integer && category(c.tensor(1).dtype) <= Category::Integer;
  const bool single = c.tensor(0).dtype == DType::Float32 && c.tensor(1).dtype == DType::Float32;
  const DType t = exact ? DType::Int64 : single ? DType::Float32 : DType::Float64;
  TensorRef sorted = contiguous(*to_dtype(c.tensor(0), t)), x = contiguous(*to_dtype(c.tensor(1), t));
  if (exact) search_into<int64_t>(*sorted, *x, c.out(), c.boolean(3));
  else if (single) search_into<float>(*sorted, *x, c.out(), c.boolean(3));
  else search_into<double>(*sorted, *x, c.out(), c.boolean(3));
}

const Primitives rows{{"_searchsorted", infer_searchsorted, cpu_searchsorted}};

}  // namespace
}  // namespace flambeau

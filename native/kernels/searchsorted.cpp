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
// How many numbers of an ascending row come before; each step halves the row without a branch.
template <class T, class Before>
int64_t count_before(const T* row, int64_t n, Before before) {
  const T* at = row;
  for (int64_t left = n; left > 1;) {
    const int64_t half = left / 2;
    at += half & -int64_t(before(at[half - 1]));
    left -= half;
  }
  return at - row + (n > 0 && before(*at));
}
template <class T>
void search(const Tensor& sorted, const Tensor& x, Tensor& out, bool right) {
  const int64_t n = sorted.size(sorted.ndim - 1),
                per = sorted.ndim == 1 ? std::max<int64_t>(x.numel, 1) : x.size(x.ndim - 1);
  const T *s = sorted.ptr<T>(), *v = x.ptr<T>();
  auto below = [](T a, T b) { return (a < b) | ((b != b) & (a == a)); };  // NaN above all
  parallel_for(x.numel, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = sorted.ndim == 1 ? s : s + i / per * n;
      const T x = v[i];
      const int64_t at = right ? count_before(row, n, [&](T a) { return !below(x, a); })
                               : count_before(row, n, [&](T a) { return below(a, x); });
      put<int64_t>(out.data, out.dtype, i, at);
    }
  });
}
void cpu_searchsorted(Call& c) {
  if (!c.out().numel) return;
  const bool exact =
      category(c.tensor(0).dtype) <= Category::Integer && category(c.tensor(1).dtype) <= Category::Integer;
  const bool single = c.tensor(0).dtype == DType::Float32 && c.tensor(1).dtype == DType::Float32;
  const DType t = exact ? DType::Int64 : single ? DType::Float32 : DType::Float64;
  TensorRef sorted = contiguous(*to_dtype(c.tensor(0), t)), x = contiguous(*to_dtype(c.tensor(1), t));
  if (exact) search<int64_t>(*sorted, *x, c.out(), c.boolean(3));
  else if (single) search<float>(*sorted, *x, c.out(), c.boolean(3));
  else search<double>(*sorted, *x, c.out(), c.boolean(3));
}

const Primitives rows{{"_searchsorted", infer_searchsorted, cpu_searchsorted}};

}  // namespace
}  // namespace flambeau

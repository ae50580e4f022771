// logsumexp: rows and columns are summed around their largest element.
#include "folds.h"
#include "row_loops.h"
#include "rows.h"

namespace flambeau {
namespace {

template <class T_>
struct LogSumExp {
  using T = T_;
  struct Acc {
    double top, sum;
  };
  static constexpr bool kFold = false;
  char* out;
  DType dtype;
  Acc init() const { return {-INFINITY, 0}; }
  void merge(Acc& a, const Acc& b) const {
    if (b.sum == 0) return;
    if (a.sum == 0) {
      a = b;
      return;
    }
    double top = Maximum<double>::join(a.top, b.top);
    if (std::isinf(top) && top > 0) a.sum = 1;  // the log of the sum is inf whatever it is multiplied by
    else a.sum = a.sum * std::exp(a.top - top) + b.sum * std::exp(b.top - top);
    a.top = top;
  }
  void block(Acc& acc, const T* p, int64_t n, int64_t) const {
    T top = -INFINITY;
    Fold<Maximum<T>>{nullptr, dtype}.block(top, p, n, 0);
    if (std::isinf(top)) {
      if (top > 0) merge(acc, {double(top), 1});
      return;
    }
    merge(acc, {double(top), exp_sum(p, nullptr, top, n)});
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t) const {
    alignas(32) T top[kColumns], sum[kColumns];
    std::memcpy(top, rows[0], size_t(w) * sizeof(T));
    for (int r = 1; r < n; ++r)
      each<T>(w,
              [&](int64_t j, int k) { give<T>(top + j, Maximum<T>::join(take(top + j, k), take(rows[r] + j, k)), k); });
    std::fill(sum, sum + w, T(0));
    for (int r = 0; r < n; ++r) {
      T unused[kColumns];
      columns_exp(rows[r], top, sum, unused, w, false);
    }
    for (int64_t j = 0; j < w; ++j) {
      if (!std::isinf(top[j])) merge(acc[j], {double(top[j]), double(sum[j])});
      else if (top[j] > 0) merge(acc[j], {double(top[j]), 1});
    }
  }
  void store(int64_t o, const Acc& acc) const {
    put<double>(out, dtype, o, acc.sum == 0 ? -INFINITY : acc.top + std::log(acc.sum));
  }
};
void infer_logsumexp(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.hand_over(dims_mask(c, 1, x.ndim));
  c.output(reduced_shape(x, mask, c.boolean(2)), is_differentiable(x.dtype) ? x.dtype : default_dtype(), x.device);
}
// Complex: row by row in complex128, around the largest real part.
void logsumexp_complex(Call& c) {
  const Tensor& x = c.tensor(0);
  const uint64_t mask = c.handed<uint64_t>();
  std::vector<int64_t> sizes, strides;
  for (bool reduced : {false, true})
    for (int d = 0; d < x.ndim; ++d)
      if (bool(mask >> d & 1) == reduced) sizes.push_back(x.sizes[d]), strides.push_back(x.strides[d]);
  TensorRef rows = empty(sizes, DType::Complex128), sums = empty(c.out().shape(), DType::Complex128);
  copy_into(*rows, *view_of(x, sizes, strides, x.data));
  const int64_t count = sums->numel, n = count ? rows->numel / count : 0;
  for (int64_t r = 0; r < count; ++r) {
    const complex128* p = rows->ptr<complex128>() + r * n;
    double top = -INFINITY;
    for (int64_t k = 0; k < n; ++k) top = Maximum<double>::join(top, p[k].real());
    if (std::isinf(top)) top = 0;
    complex128 sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += std::exp(p[k] - top);
    sums->ptr<complex128>()[r] = top + std::log(sum);
  }
  copy_into(c.out(), *sums);
}
void cpu_logsumexp(Call& c) {
  if (is_complex(c.tensor(0).dtype)) return logsumexp_complex(c);
  TensorRef x = is_floating(c.tensor(0).dtype) ? TensorRef::borrow(&c.tensor(0)) : to_dtype(c.tensor(0), c.out().dtype);
  const uint64_t mask = c.handed<uint64_t>();
  Tensor &dense = c.out();
  {
    LockRelease lock(x->numel);
    if (x->dtype == DType::Float64) run_reduction(LogSumExp<double>{dense.data, c.out().dtype}, *x, mask);
    else if (loader_of<float>(x->dtype)) run_reduction(LogSumExp<float>{dense.data, c.out().dtype}, *x, mask);
    else no_loop_for(c, x->dtype);
  }
}

const Primitives rows{
    {"logsumexp", infer_logsumexp, cpu_logsumexp},
};

}  // namespace
}  // namespace flambeau

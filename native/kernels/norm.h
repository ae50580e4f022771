// What normalisation over rows, groups and batches shares: checks, parameters as numbers, the statistics of a row.
#pragma once
#include "folds.h"
#include "rows.h"

namespace flambeau::norm {

// An optional parameter as numbers of the compute type.
template <class T>
std::vector<T> parameter(const Tensor* t, int64_t n, T otherwise) {
  std::vector<T> v(size_t(n), otherwise);
  if (t) {
    TensorRef dense =
        contiguous(loader_of<T>(t->dtype) ? *t : *to_dtype(*t, sizeof(T) == 4 ? DType::Float32 : DType::Float64));
    loader_of<T>(dense->dtype)(v.data(), dense->data, dense->itemsize(), n);
  }
  return v;
}
inline void check_parameter(const Call& c, int k, const char* what, Dims shape) {
  const Tensor* t = c.optional_tensor(k);
  if (!t) return;
  if (!is_floating(t->dtype))
    runtime_error(c.name(), ": expected ", what, " to be floating point, got ", dtype_name(t->dtype));
  if (!std::equal(shape.begin(), shape.end(), t->sizes, t->sizes + t->ndim))
    runtime_error(c.name(), ": Expected ", what, " to be of shape ", shape_text(shape), ", but got ", what,
                  " of shape ", shape_text(t->shape()));
}
inline void check_same_shape(const Call& c, const Tensor& grad, const Tensor& x) {
  if (!std::equal(x.sizes, x.sizes + x.ndim, grad.sizes, grad.sizes + grad.ndim))
    runtime_error(c.name(), ": gradient has shape ", shape_text(grad.shape()), " but the input ",
                  shape_text(x.shape()));
}
inline void check_floating(const Call& c, const Tensor& x) {
  if (!is_floating(x.dtype)) runtime_error(c.name(), ": expected a floating point tensor, got ", dtype_name(x.dtype));
}
template <class T>
TensorRef rows_of(const Tensor& t, DType like) {
  return contiguous(loader_of<T>(t.dtype) ? t : *to_dtype(t, like));
}

struct Statistics {
  double mean, rstd;
};
template <class T, bool centred>
Statistics statistics(const T* x, int64_t n, double eps) {
  if constexpr (centred) {
    if (n > 2 * kRowBlock) {  // longer than the first-level cache: block by block
      auto nothing = [](int64_t, double, double, double) {};
      Moments<T, decltype(nothing)> moments{nothing};
      auto acc = moments.init();
      for (int64_t k = 0; k < n; k += kRowBlock) moments.block(acc, x + k, std::min(kRowBlock, n - k), k);
      return {acc.mean, 1 / std::sqrt(acc.m2 / acc.n + eps)};
    }
  }
  const double mean = centred ? row_sum(x, n) / double(n) : 0;
  const T m = T(mean);
  const double square = sum_over<T>(n, [&](int64_t i, int k) {
    Vector<T> d = take(x + i, k, m) - m;
    return d * d;
  });
  return {mean, 1 / std::sqrt(square / double(n) + eps)};
}

}  // namespace flambeau::norm

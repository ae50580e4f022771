// Distances between rows: of two sets (_cdist) or of all pairs of one (_pdist), without the differences in memory.
//
// Euclidean distances of many rows come from one matrix product, |a|^2 + |b|^2 - 2 <a, b>, where the caller allows its
// rounding; all others from the differences themselves.
#include <cmath>

#include "../core/machine.h"
#include "distance.h"
#include "gemm.h"

namespace flambeau {

const DistanceLoops* distance_loops[2];

namespace {

constexpr int kParts = 16;  // partial sums side by side: one vector loop, and an order that does not depend on threads

template <class T, class Term, class Join>
T over_row(const T* a, const T* b, int64_t d, Term term, Join join) {
  T part[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= d; i += kParts)
    for (int k = 0; k < kParts; ++k) part[k] = join(part[k], term(std::abs(a[i + k] - b[i + k])));
  T all = 0;
  for (int k = 0; k < kParts; ++k) all = join(all, part[k]);
  for (; i < d; ++i) all = join(all, term(std::abs(a[i] - b[i])));
  return all;
}
template <class T>
T distance(const T* a, const T* b, int64_t d, double p) {
  auto sum = [](T x, T y) { return x + y; };
  if (p == 0) return over_row(a, b, d, [](T x) { return x == x ? T(x != 0) : x; }, sum);
  if (std::isinf(p)) return over_row(a, b, d, [](T x) { return x; }, [](T x, T y) { return y != y || x < y ? y : x; });
  return std::pow(over_row(a, b, d, [p](T x) { return T(std::pow(x, T(p))); }, sum), T(1 / p));
}

// to[j] = the distance from a to row j of b
template <class T>
void distances(const T* a, const T* b, int64_t count, int64_t d, double p, T* to) {
  static const DistanceLoops& loops = best_loops(distance_loops);
  if (p == 2 || p == 1) {
    if constexpr (sizeof(T) == 4) return (p == 2 ? loops.euclidean_f32 : loops.city_f32)(a, b, count, d, to);
    else return (p == 2 ? loops.euclidean_f64 : loops.city_f64)(a, b, count, d, to);
  }
  for (int64_t j = 0; j < count; ++j) to[j] = distance(a, b + j * d, d, p);
}

void check_norm(const Call& c, double p) {
  if (!(p >= 0)) runtime_error(c.name(), ": p must not be negative, got ", p);
}
void check_real(const Call& c, const Tensor& x) {
  if (x.dtype != DType::Float32 && x.dtype != DType::Float64)
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), "; expected float32 or float64");
}

// _cdist(x1 [b, n, d], x2 [b, m, d], p, by_product) -> [b, n, m]
void infer_cdist(Call& c) {
  const Tensor &x = c.tensor(0), &y = c.tensor(1);
  check_real(c, x);
  check_norm(c, c.real(2));
  if (x.ndim != 3 || y.ndim != 3 || x.size(0) != y.size(0) || x.size(2) != y.size(2) || x.dtype != y.dtype)
    runtime_error("cdist: expected rows of one length and dtype, got ", shape_text(x.shape()), " and ",
                  shape_text(y.shape()));
  const int64_t shape[3] = {x.size(0), x.size(1), y.size(1)};
  c.output(shape, x.dtype, x.device);
}
template <class T>
void euclidean_by_product(const T* x, const T* y, int64_t n, int64_t m, int64_t d, T* to) {
  auto squares = [d](const T* rows, int64_t count) {
    std::vector<T> found(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      T part[kParts] = {}, all = 0;
      const T* row = rows + i * d;
      int64_t j = 0;
      for (; j + kParts <= d; j += kParts)
        for (int k = 0; k < kParts; ++k) part[k] += row[j + k] * row[j + k];
      for (T v : part) all += v;
      for (; j < d; ++j) all += row[j] * row[j];
      found[size_t(i)] = all;
    }
    return found;
  };
  const std::vector<T> of_x = squares(x, n), of_y = squares(y, m);
  gemm<T>(n, m, d, x, d, 1, y, 1, d, to, m, {T(-2), T(0), of_y.data(), of_x.data()});
  parallel_for(n, std::max<int64_t>(1, 32768 / std::max<int64_t>(m, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * m; i < end * m; ++i) to[i] = std::sqrt(to[i] < 0 ? T(0) : to[i]);
  });
}
template <class T>
void cdist_of(const Tensor& x, const Tensor& y, double p, bool by_product, Tensor& out) {
  const int64_t n = x.size(1), m = y.size(1), d = x.size(2);
  if (!out.numel) return;
  LockRelease lock(out.numel * std::max<int64_t>(d, 1));
  if (by_product && d) {
    for (int64_t b = 0; b < x.size(0); ++b)
      euclidean_by_product(x.ptr<T>() + b * n * d, y.ptr<T>() + b * m * d, n, m, d, out.ptr<T>() + b * n * m);
    return;
  }
  parallel_for(x.size(0) * n, std::max<int64_t>(1, 8192 / (m * std::max<int64_t>(d, 1))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   distances(x.ptr<T>() + i * d, y.ptr<T>() + i / n * m * d, m, d, p, out.ptr<T>() + i * m);
               });
}
void cpu_cdist(Call& c) {
  TensorRef x = contiguous(c.tensor(0)), y = contiguous(c.tensor(1));
  const double p = c.real(2);
  if (x->dtype == DType::Float32) cdist_of<float>(*x, *y, p, c.boolean(3) && p == 2, c.out());
  else cdist_of<double>(*x, *y, p, c.boolean(3) && p == 2, c.out());
}

// _pdist(self [n, d], p) -> [n (n - 1) / 2]
void infer_pdist(Call& c) {
  const Tensor& x = c.tensor(0);
  if (x.ndim != 2) runtime_error("pdist: expected 2 dimensions (points, coordinates), got ", x.ndim);
  check_real(c, x);
  check_norm(c, c.real(1));
  const int64_t n = x.size(0), pairs = n < 2 ? 0 : size_product("pdist", {n, n - 1}) / 2;
  c.output({&pairs, 1}, x.dtype, x.device);
}
template <class T>
void pdist_of(const Tensor& x, double p, Tensor& out) {
  const int64_t n = x.size(0), d = x.size(1);
  LockRelease lock(out.numel * std::max<int64_t>(d, 1));
  // Pair i of the second half goes with pair i of the first: the rows of a triangle differ in length. Rows that are met
  // together stay in the second cache.
  const int64_t block = std::max<int64_t>((256 << 10) / (std::max<int64_t>(d, 1) * int64_t(sizeof(T))), 8);
  auto row = [&](int64_t i, int64_t from, int64_t to) {
    if ((from = std::max(from, i + 1)) >= to) return;
    T* first = out.ptr<T>() + i * (2 * n - i - 1) / 2 + (from - i - 1);
    distances(x.ptr<T>() + i * d, x.ptr<T>() + from * d, to - from, d, p, first);
  };
  parallel_for(n / 2, std::max<int64_t>(1, 8192 / (n * std::max<int64_t>(d, 1))), [&](int64_t begin, int64_t end) {
    for (int64_t at = 0; at < n; at += block)
      for (int64_t i = begin; i < end; ++i) {
        row(i, at, std::min(at + block, n));
        if (n - 2 - i != i) row(n - 2 - i, at, std::min(at + block, n));
      }
  });
}
void cpu_pdist(Call& c) {
  TensorRef x = contiguous(c.tensor(0));
  if (!c.out().numel) return;
  if (x->dtype == DType::Float32) pdist_of<float>(*x, c.real(1), c.out());
  else pdist_of<double>(*x, c.real(1), c.out());
}

const Primitives rows{{"_cdist", infer_cdist, cpu_cdist}, {"_pdist", infer_pdist, cpu_pdist}};

}  // namespace
}  // namespace flambeau

// Products of tensors: mm, bmm, matmul, addmm, baddbmm, dot, mv and linear with its backward, all through one batched
// product that folds batch dimensions into rows where strides allow.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "gemm.h"
#include "half_rows.h"
#include "rows.h"

namespace flambeau {
namespace {

std::string pair_text(int64_t rows, int64_t cols) { return concat(rows, "x", cols); }

void same_dtype(const Call& c, const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype)
    runtime_error(c.name(), ": the operands must have one dtype, got ", dtype_name(a.dtype), " and ",
                  dtype_name(b.dtype));
  if (a.dtype == DType::Bool) runtime_error(c.name(), ": not implemented for dtype bool");
}

void need_dims(const Call& c, const Tensor& t, int ndim, const char* role) {
  if (t.ndim != ndim)
    runtime_error(c.name(), ": ", role, " must be a ", ndim == 3 ? "3D tensor" : ndim == 2 ? "matrix"
        : "vector (1D tensor)",
                  ", got ", int(t.ndim), "D tensor of shape ", shape_text(t.shape()));
}

// --- the batched product -------------------------------------------------------------------------------------------

struct Product {
  int64_t m, n, k;
  int64_t ars, acs, brs, bcs, crs;
  std::vector<int64_t> batch, a, b, c;  // batch sizes and each operand's strides along them
};

// Row strides that are never 0 or 1 by accident of a size-1 dimension would send a plain matrix the slow way.
void tidy(Product& p) {
  if (p.m == 1) p.ars = p.k * p.acs;
  if (p.k == 1) {
    if (p.ars != 1) p.acs = 1;
    if (p.bcs != 1) p.brs = 1;
    else p.brs = p.n;
  }
}

void fold_batch(Product& p) {
  size_t kept = 0;
  for (size_t d = 0; d < p.batch.size(); ++d) {
    if (p.batch[d] == 1) continue;
    p.batch[kept] = p.batch[d], p.a[kept] = p.a[d], p.b[kept] = p.b[d], p.c[kept] = p.c[d];
    ++kept;
  }
  p.batch.resize(kept), p.a.resize(kept), p.b.resize(kept), p.c.resize(kept);
  if (p.m == 1 && kept && p.b.back() == 0) p.ars = p.a.back(), p.crs = p.c.back();
  while (!p.batch.empty() && p.b.back() == 0 && (p.m == 1 || (p.a.back() == p.ars * p.m &&
      p.c.back() == p.crs * p.m))) {
    if (p.m == 1) p.ars = p.a.back(), p.crs = p.c.back();
    p.m *= p.batch.back();
    p.batch.pop_back(), p.a.pop_back(), p.b.pop_back(), p.c.pop_back();
  }
}

bool is_zero(const Scalar& s) { return s.integral() ? s.i == 0 : s.re == 0 && s.im == 0; }
bool is_one(const Scalar& s) { return s.integral() ? s.i == 1 : s.re == 1 && s.im == 0; }

// Matrices of some kilobytes whose elements lie together.
bool is_dense(const Product& p, int64_t size) {
  return p.m * p.k * size >= 8192 && (p.acs == 1 ? p.ars == p.k : p.acs == p.m && p.ars == 1) &&
         (p.bcs == 1 ? p.brs == p.n : p.bcs == p.k && p.brs == 1);
}

// Where matrix `index` of a batch begins, in elements.
int64_t place(const Product& p, const std::vector<int64_t>& steps, int64_t index) {
  int64_t offset = 0;
  for (size_t d = p.batch.size() - 1; d > 0; index /= p.batch[d--]) offset += index % p.batch[d] * steps[d];
  return offset + index * steps[0];
}

// Small matrices, which are multiplied one after the other without deciding anew how. False where they are not.
template <class T>
bool small_batch(const Product& p, int64_t count, const void* a, const void* b, void* c) {
  constexpr int64_t kSmallWork = 32 * 32 * 32;
  const auto& kernels = gemm_kernels<T>();
  const int64_t work = p.m * p.n * p.k;
  if (p.batch.size() != 1 || work > kSmallWork || work == 0 || p.m == 1 || p.n == 1 || p.n > kernels.nr || p.bcs != 1)
    return false;
  parallel_for(count, std::max<int64_t>(1, (1 << 16) / work), [&](int64_t i, int64_t end) {
    kernels.batch({end - i, p.a[0], p.b[0], p.c[0]}, end == count, p.m, p.n, p.k,
                  static_cast<const T*>(a) + i * p.a[0], p.ars, p.acs, static_cast<const T*>(b) + i * p.b[0], p.brs,
                  static_cast<T*>(c) + i * p.c[0], p.crs);
  });
  return true;
}

void multiply(DType dtype, Product p, const char* a, const char* b, char* c, const Scalar& alpha, const Scalar& beta,
              const void* bias = nullptr) {
  fold_batch(p);
  tidy(p);
  if (p.batch.empty())
    return gemm_any(dtype, p.m, p.n, p.k, {a, p.ars, p.acs}, {b, p.brs, p.bcs}, c, p.crs, alpha, beta, bias);
  const int64_t size = item_size(dtype);
  int64_t count = 1;
  for (int64_t n : p.batch) count *= n;
  int64_t work = p.m * p.n * std::max<int64_t>(p.k, 1);
  auto left = [&](int64_t index) { return a + place(p, p.a, index) * size; };
  auto right = [&](int64_t index) { return b + place(p, p.b, index) * size; };
  auto one = [&](int64_t index, bool threads, Fetch* fetch) {
    gemm_any(dtype, p.m, p.n, p.k, {left(index), p.ars, p.acs}, {right(index), p.brs, p.bcs},
             c + place(p, p.c, index) * size, p.crs, alpha, beta, bias, threads, fetch);
  };
  // the choice rests on sizes alone, so that results do not depend on the number of threads
  const bool plain = is_one(alpha) && is_zero(beta) && !bias;
  if (plain && dtype == DType::Float32 && small_batch<float>(p, count, a, b, c)) return;
  if (plain && dtype == DType::Float64 && small_batch<double>(p, count, a, b, c)) return;
  if (plain && dtype == DType::Int64 && small_batch<uint64_t>(p, count, a, b, c)) return;
  if (dtype == DType::BFloat16 && p.batch.size() == 1 && count * work > kParallelWork && !bias &&
      batch_of_halves({count, p.a[0], p.b[0], p.c[0]}, p.m, p.n, p.k, {a, p.ars, p.acs}, {b, p.brs, p.bcs}, c, p.crs,
                      alpha.to<float>(), beta.to<float>()))
    return;
  if (work > (1 << 24)) {
    for (int64_t i = 0; i < count; ++i) one(i, true, nullptr);
    return;
  }
  const bool ahead = fetches_in_bursts() && is_dense(p, size);
  parallel_for(count, std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(work, 1)), [&](int64_t i, int64_t end) {
    for (; ahead && i + 1 < end; ++i) {
      Fetch next;
      if (p.a.back()) next.rows[0] = {left(i + 1), 1, p.m * p.k * size / 64};
      if (p.b.back()) next.rows[1] = {right(i + 1), 1, p.k * p.n * size / 64};
      one(i, false, &next);
    }
    for (; i < end; ++i) one(i, false, nullptr);
  });
}

// a[batch…, m, k] times b[batch…, k, n] as views with those exact dimensions; c is contiguous.
Product product_of(Dims batch, const Tensor& a, const Tensor& b, bool a_row, bool b_col) {
  Product p;
  int an = a.ndim - (a_row ? 1 : 2), bn = b.ndim - (b_col ? 1 : 2);
  p.k = a.size(a.ndim - 1);
  p.acs = a.strides[a.ndim - 1];
  p.m = a_row ? 1 : a.size(a.ndim - 2);
  p.ars = a_row ? p.k : a.strides[a.ndim - 2];
  p.n = b_col ? 1 : b.size(b.ndim - 1);
  p.bcs = b_col ? 1 : b.strides[b.ndim - 1];
  p.brs = b_col ? b.strides[b.ndim - 1] : b.strides[b.ndim - 2];
  p.crs = p.n;
  p.batch.assign(batch.begin(), batch.end());
  int nd = int(batch.size());
  p.a.assign(nd, 0), p.b.assign(nd, 0), p.c.assign(nd, 0);
  int64_t step = p.m * p.n;
  for (int d = nd - 1; d >= 0; --d) {
    int ad = d - (nd - an), bd = d - (nd - bn);
    if (ad >= 0 && a.size(ad) != 1) p.a[d] = a.strides[ad];
    if (bd >= 0 && b.size(bd) != 1) p.b[d] = b.strides[bd];
    p.c[d] = step;
    step *= batch[d];
  }
  return p;
}

int64_t work_of(const Product& p) {
  int64_t w = p.m * p.n * std::max<int64_t>(p.k, 1) / 16;
  for (int64_t n : p.batch) w *= n;
  return w;
}

void run_product(Call& c, const Tensor& a, const Tensor& b, Dims batch, bool a_row, bool b_col) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  Product p = product_of(batch, a, b, a_row, b_col);
  LockRelease lock(work_of(p));
  multiply(out.dtype, std::move(p), a.data, b.data, out.data, 1, 0);
}

// --- mm, bmm, mv, dot ----------------------------------------------------------------------------------------------

void check_mm(const Call& c, const Tensor& a, const Tensor& b) {
  need_dims(c, a, 2, "mat1");
  need_dims(c, b, 2, "mat2");
  if (a.size(1) != b.size(0))
    runtime_error(c.name(), ": a ", pair_text(a.size(0), a.size(1)), " matrix cannot be multiplied by a ",
                  pair_text(b.size(0), b.size(1)), " one");
  same_dtype(c, a, b);
}

void infer_mm(Call& c) {
  Tensor &a = c.tensor(0), &b = c.tensor(1);
  check_mm(c, a, b);
  int64_t shape[] = {a.size(0), b.size(1)};
  c.output(shape, a.dtype, a.device);
}
void cpu_mm(Call& c) { run_product(c, c.tensor(0), c.tensor(1), {}, false, false); }

void check_bmm(const Call& c, const Tensor& a, const Tensor& b) {
  need_dims(c, a, 3, "batch1");
  need_dims(c, b, 3, "batch2");
  if (a.size(0) != b.size(0) || a.size(2) != b.size(1))
    runtime_error(c.name(), ": batches of matrices ", shape_text(a.shape()), " and ", shape_text(b.shape()), " cannot "
                  "be multiplied; the second must be [", a.size(0), ", ", a.size(2), ", *]");
  same_dtype(c, a, b);
}
void infer_bmm(Call& c) {
  Tensor &a = c.tensor(0), &b = c.tensor(1);
  check_bmm(c, a, b);
  int64_t shape[] = {a.size(0), a.size(1), b.size(2)};
  c.output(shape, a.dtype, a.device);
}
void cpu_bmm(Call& c) { run_product(c, c.tensor(0), c.tensor(1), c.tensor(0).shape().first(1), false, false); }

void check_mv(const Call& c, const Tensor& a, const Tensor& x) {
  if (a.size(1) != x.size(0))
    runtime_error(c.name(), ": a ", pair_text(a.size(0), a.size(1)), " matrix cannot be multiplied by a vector of ",
                  x.size(0));
}
void infer_mv(Call& c) {
  Tensor &a = c.tensor(0), &x = c.tensor(1);
  need_dims(c, a, 2, "self");
  need_dims(c, x, 1, "vec");
  check_mv(c, a, x);
  same_dtype(c, a, x);
  c.output(a.shape().first(1), a.dtype, a.device);
}
void cpu_mv(Call& c) { run_product(c, c.tensor(0), c.tensor(1), {}, false, true); }

void check_dot(const Call& c, const Tensor& a, const Tensor& b) {
  if (a.ndim != 1 || b.ndim != 1)
    runtime_error(c.name(), ": expected two vectors, got ", int(a.ndim), " and ", int(b.ndim), " dimensions");
  if (a.numel != b.numel)
    runtime_error(c.name(), ": the vectors have ", a.numel, " and ", b.numel, " elements; they must have equally many");
  same_dtype(c, a, b);
}
void infer_dot(Call& c) {
  check_dot(c, c.tensor(0), c.tensor(1));
  c.output({}, c.tensor(0).dtype, c.tensor(0).device);
}
// Products of parts of one kind, and of the one kind with the other. conj: of the first vector's conjugate.
template <bool conj, class R>
complex128 complex_dot(const std::complex<R>* a, const std::complex<R>* b, int64_t n) {
  constexpr int64_t kSingly = 2048;  // numbers whose products are summed in R
  constexpr int L = kLanes<R>, step = L / 2, sums = 4;
  double re = 0, im = 0;
  for (int64_t at = 0; at < n; at += kSingly) {
    const int64_t end = std::min(n, at + kSingly);
    Vector<R> same[sums] = {}, crossed[sums] = {};
    int64_t i = at;
    for (; i + sums * step <= end; i += sums * step)
#pragma GCC unroll 4
      for (int k = 0; k < sums; ++k) {
        const Vector<R> x = load_vector(reinterpret_cast<const R*>(a + i + k * step)),
                        y = load_vector(reinterpret_cast<const R*>(b + i + k * step));
        same[k] += x * y;
        crossed[k] += x * neighbours_exchanged(y);
      }
    const Vector<R> s = (same[0] + same[1]) + (same[2] + same[3]);
    const Vector<R> c = (crossed[0] + crossed[1]) + (crossed[2] + crossed[3]);
    for (int l = 0; l < L; l += 2) {
      re += double(s[l]) + (conj ? s[l + 1] : -s[l + 1]);
      im += double(c[l]) + (conj ? -c[l + 1] : c[l + 1]);
    }
    for (; i < end; ++i) {
      const double x = a[i].real(), y = conj ? -a[i].imag() : a[i].imag(), u = b[i].real(), v = b[i].imag();
      re += x * u - y * v;
      im += x * v + y * u;
    }
  }
  return {re, im};
}
// Numbers [first, first + n) of a vector, side by side.
template <class T>
const T* some_of(const Tensor& t, int64_t first, int64_t n, ScratchSlot slot) {
  const int64_t step = t.numel > 1 ? t.strides[0] : 1;
  return side_by_side(t.ptr<T>() + first * step, step, n, slot);
}
// Long vectors in parts, whose number does not depend on the threads.
template <class T, class Sum>
void dot_parts(const Tensor& a, const Tensor& b, Tensor& out, Sum sum) {
  constexpr int64_t kPart = 1 << 15;
  const int64_t n = a.numel, parts = (n + kPart - 1) / kPart;
  auto part = [&](int64_t k) {
    const int64_t first = k * kPart, some = std::min(kPart, n - first);
    return sum(some_of<T>(a, first, some, kScratchA), some_of<T>(b, first, some, kScratchB), some);
  };
  if (parts <= 1) {
    *out.ptr<T>() = n ? T(part(0)) : T(0);
    return;
  }
  std::vector<decltype(part(0))> sums(static_cast<size_t>(parts));
  LockRelease lock(n / 4);
  parallel_for(parts, 2, [&](int64_t k, int64_t end) {
    for (; k < end; ++k) sums[size_t(k)] = part(k);
  });
  *out.ptr<T>() = T(std::accumulate(sums.begin(), sums.end(), decltype(part(0))(0)));
}
template <class U>
U integer_dot(const U* a, const U* b, int64_t n) {
  if constexpr (sizeof(U) < 8) return narrow_dot(a, b, n);
  U sum = 0;
  gemm_kernels<U>().dots(1, n, a, n, 1, b, n, &sum, 1, 1, 1, 0, nullptr);
  return sum;
}
// Conjugates are read by their flag.
bool dot_accepts(const Call&, const Tensor& t) {
  return t.device.type == DeviceType::CPU && (t.flags & kLazy) == kConj && t.dtype != DType::Complex32;
}
template <class T>
void dot_of_complex(const Tensor& a, const Tensor& b, Tensor& out) {
  using R = typename T::value_type;
  dot_parts<T>(a, b, out, (a.flags ^ b.flags) & kConj ? complex_dot<true, R> : complex_dot<false, R>);
  if (b.flags & kConj) *out.ptr<T>() = std::conj(*out.ptr<T>());
}
void cpu_dot(Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  Tensor& out = c.out();
  if (a.dtype == DType::Complex64) return dot_of_complex<complex64>(a, b, out);
  if (a.dtype == DType::Complex128) return dot_of_complex<complex128>(a, b, out);
  if (is_half(a.dtype)) {
    TensorRef x = to_dtype(a, DType::Float32), y = to_dtype(b, DType::Float32);
    TensorRef sum = empty({}, DType::Float32);
    dot_parts<float>(*x, *y, *sum, row_dot<float>);
    return copy_into(out, *sum);
  }
  if (category(a.dtype) == Category::Integer)
    return visit_size(a.itemsize(), [&]<class U>() {
      if constexpr (std::is_integral_v<U>) dot_parts<U>(a, b, out, integer_dot<U>);
    });
  if (a.numel >= 1 << 16 && (a.dtype == DType::Float32 || a.dtype == DType::Float64)) {
    if (a.dtype == DType::Float32) return dot_parts<float>(a, b, out, row_dot<float>);
    return dot_parts<double>(a, b, out, row_dot<double>);
  }
  run_product(c, a, b, {}, true, true);
}

// --- matmul --------------------------------------------------------------------------------------------------------

std::vector<int64_t> matmul_batch(const Call& c, const Tensor& a, const Tensor& b) {
  Dims ab = a.shape().first(std::max(0, a.ndim - 2)), bb = b.shape().first(std::max(0, b.ndim - 2));
  if (bb.empty()) return {ab.begin(), ab.end()};
  if (ab.empty()) return {bb.begin(), bb.end()};
  return broadcast_shapes(ab, bb, c.name());
}

void infer_matmul(Call& c) {
  Tensor &a = c.tensor(0), &b = c.tensor(1);
  if (a.ndim == 2 && b.ndim == 2) return infer_mm(c);
  if (a.ndim == 0 || b.ndim == 0)
    runtime_error("matmul: a tensor without dimensions cannot be multiplied as a matrix, got ", int(a.ndim), " and ",
                  int(b.ndim), " dimensions; use * for a number");
  if (a.ndim == 1 && b.ndim == 1) return infer_dot(c);
  same_dtype(c, a, b);
  int64_t k = a.size(a.ndim - 1), bk = b.ndim == 1 ? b.size(0) : b.size(b.ndim - 2);
  if (k != bk) {
    if (a.ndim == 2 && b.ndim == 1) check_mv(c, a, b);
    if (a.ndim > 2 && b.ndim > 2)
      runtime_error("matmul: expected the last dimension of self (", k, ") to equal the second to last of other (", bk,
                    "), got shapes ", shape_text(a.shape()), " and ", shape_text(b.shape()));
    int64_t rows = a.ndim == 1 ? 1 : a.numel / std::max<int64_t>(k, 1);
    runtime_error("matmul: a ", pair_text(rows, k), " matrix cannot be multiplied by a ",
                  pair_text(bk, b.ndim == 1 ? 1 : b.size(b.ndim - 1)), " one");
  }
  std::vector<int64_t> shape = c.hand_over(matmul_batch(c, a, b));
  if (a.ndim > 1) shape.push_back(a.size(a.ndim - 2));
  if (b.ndim > 1) shape.push_back(b.size(b.ndim - 1));
  c.output(shape, a.dtype, a.device);
}
void cpu_matmul(Call& c) {
  Tensor &a = c.tensor(0), &b = c.tensor(1);
  const bool batched = a.ndim > 2 || b.ndim > 2;  // as infer_matmul: products of two matrices need nothing worked out
  run_product(c, a, b, batched ? Dims(c.handed<std::vector<int64_t>>()) : Dims(), a.ndim == 1, b.ndim == 1);
}

// --- addmm, baddbmm: beta self + alpha (a @ b)
// ------------------------------------------------------------------------

void check_scale(const Call& c, DType dtype, const Scalar& alpha, const Scalar& beta) {
  if (!is_complex(dtype) && (alpha.category == Category::Complex || beta.category == Category::Complex))
    runtime_error(c.name(), ": beta and alpha must be real for dtype ", dtype_name(dtype));
}
void check_added(const Call& c, Dims result) {
  Tensor& self = c.tensor(0);
  if (self.dtype != c.tensor(1).dtype)
    runtime_error(c.name(), ": the tensor and the product must have one dtype, got ", dtype_name(self.dtype), " and ",
                  dtype_name(c.tensor(1).dtype));
  bool fits = self.ndim <= result.size();
  for (int d = 1; fits && d <= self.ndim; ++d) {
    int64_t have = self.size(self.ndim - d);
    fits = have == 1 || have == result[result.size() - d];
  }
  if (!fits)
    runtime_error(c.name(), ": self of shape ", shape_text(self.shape()), " cannot be expanded to the product's shape ",
                  shape_text(result));
}

void infer_addmm(Call& c) {
  Tensor &a = c.tensor(1), &b = c.tensor(2);
  check_mm(c, a, b);
  int64_t shape[] = {a.size(0), b.size(1)};
  check_added(c, shape);
  check_scale(c, a.dtype, c.scalar(3), c.scalar(4));
  c.output(shape, a.dtype, a.device);
}
void infer_baddbmm(Call& c) {
  Tensor &a = c.tensor(1), &b = c.tensor(2);
  check_bmm(c, a, b);
  int64_t shape[] = {a.size(0), a.size(1), b.size(2)};
  check_added(c, shape);
  check_scale(c, a.dtype, c.scalar(3), c.scalar(4));
  c.output(shape, a.dtype, a.device);
}
void cpu_add_product(Call& c) {
  Tensor &self = c.tensor(0), &a = c.tensor(1), &b = c.tensor(2), &out = c.out();
  if (out.numel == 0) return;
  Scalar beta = c.scalar(3), alpha = c.scalar(4);
  bool row = self.ndim == 1 && self.size(0) == out.size(out.ndim - 1) && self.contiguous() && is_one(beta) &&
             (out.dtype != DType::BFloat16 || is_one(alpha));
  if (!row && !is_zero(beta)) copy_into(out, self);
  Product p = product_of(out.shape().first(out.ndim - 2), a, b, false, false);
  LockRelease lock(work_of(p));
  multiply(out.dtype, std::move(p), a.data, b.data, out.data, alpha, row ? Scalar(0) : beta, row ? self.data : nullptr);
}

// --- linear ----------------------------------------------------------------------------------------------------------

std::vector<int64_t> linear_shape(const Tensor& input, const Tensor& weight) {
  std::vector<int64_t> shape(input.sizes, input.sizes + input.ndim - 1);
  if (weight.ndim == 2) shape.push_back(weight.size(0));
  return shape;
}

void infer_linear(Call& c) {
  Tensor &x = c.tensor(0), &w = c.tensor(1);
  Tensor* bias = c.optional_tensor(2);
  if (x.ndim == 0) runtime_error("linear: input needs at least 1 dimension, got a 0-d tensor");
  if (w.ndim != 2 && w.ndim != 1)
    runtime_error("linear: weight must have shape [out_features, in_features] or [in_features], got ",
        shape_text(w.shape()));
  int64_t in = w.size(w.ndim - 1);
  if (x.size(x.ndim - 1) != in)
    runtime_error("linear: input has ", x.size(x.ndim - 1), " features but weight expects ", in, " (input ",
                  shape_text(x.shape()), ", weight ", shape_text(w.shape()), ")");
  same_dtype(c, x, w);
  if (bias) {
    same_dtype(c, x, *bias);
    bool fits = bias->ndim == 0 || bias->numel == 1 || (w.ndim == 2 && bias->ndim == 1 && bias->size(0) == w.size(0));
    if (!fits || bias->ndim > 1)
      runtime_error("linear: bias has shape ", shape_text(bias->shape()), " but weight ", shape_text(w.shape()),
                    " produces ", w.ndim == 2 ? w.size(0) : 1, " features");
  }
  if (x.ndim == 2 && w.ndim == 2) {
    int64_t shape[] = {x.size(0), w.size(0)};
    c.output(shape, x.dtype, x.device);
  } else {
    c.output(linear_shape(x, w), x.dtype, x.device);
  }
}

void cpu_linear(Call& c) {
  Tensor &x = c.tensor(0), &w = c.tensor(1), &out = c.out();
  Tensor* bias = c.optional_tensor(2);
  if (out.numel == 0) return;
  int64_t n = w.ndim == 2 ? w.size(0) : 1, k = x.size(x.ndim - 1);
  bool row = bias && bias->numel == n && (n == 1 || bias->strides[0] == 1);
  if (x.dtype == DType::Float32 && x.contiguous() && w.contiguous() && out.contiguous() && (!bias || row)) {
    // the path of nearly every layer: no product description, no temporaries
    int64_t m = out.numel / n;
    LockRelease lock(m * n * std::max<int64_t>(k, 1) / 16);
    return gemm<float>(m, n, k, x.ptr<float>(), k, 1, w.ptr<float>(), 1, k, out.ptr<float>(), n,
                       {1, 0, bias ? bias->ptr<float>() : nullptr});
  }
  if (bias && !row) copy_into(out, *bias);
  Product p = product_of(x.shape().first(std::max(0, x.ndim - 2)), x, w, x.ndim == 1, w.ndim == 1);
  if (w.ndim == 2) p.n = p.crs = n, p.brs = w.strides[1], p.bcs = w.strides[0];
  int64_t step = p.m * n;
  for (size_t d = p.batch.size(); d-- > 0; step *= p.batch[d]) p.c[d] = step, p.b[d] = 0;
  LockRelease lock(work_of(p));
  multiply(out.dtype, std::move(p), x.data, w.data, out.data, 1, bias && !row ? 1 : 0, row ? bias->data : nullptr);
}

// --- linear_backward(grad, input, weight, int mask) -> (input, weight, bias); mask bits 1, 2, 4 say which are
// wanted ----

void infer_linear_backward(Call& c) {
  Tensor &g = c.tensor(0), &x = c.tensor(1), &w = c.tensor(2);
  int64_t mask = c.integer(3), nothing[] = {0};
  std::vector<int64_t> expected = linear_shape(x, w);
  if (!std::ranges::equal(g.shape(), expected))
    runtime_error("linear_backward: expected a gradient of shape ", shape_text(expected), ", got ",
        shape_text(g.shape()));
  same_dtype(c, g, x);
  same_dtype(c, g, w);
  int64_t features[] = {w.ndim == 2 ? w.size(0) : 1};
  c.output(mask & 1 ? x.shape() : Dims(nothing), x.dtype, x.device);
  c.output(mask & 2 ? w.shape() : Dims(nothing), x.dtype, x.device);
  c.output(mask & 4 ? (w.ndim == 2 ? Dims(features) : Dims()) : Dims(nothing), x.dtype, x.device);
}

template <class R>
void conjugate(std::complex<R>* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = std::conj(p[i]);
}
TensorRef conj_copy(const Tensor& t) {
  TensorRef copy = empty(t.shape(), t.dtype, t.device);
  copy_into(*copy, t);
  if (t.dtype == DType::Complex64) conjugate(copy->ptr<complex64>(), copy->numel);
  else if (t.dtype == DType::Complex32) not_implemented("linear: not offered for complex32; convert it to complex64");
  else conjugate(copy->ptr<complex128>(), copy->numel);
  return copy;
}

// Sum over rows. Floats add rows in blocks of 64, so that the error grows with rows / 64. Threads share the columns.
template <class T, class A>
void sum_rows(const T* g, int64_t rows, int64_t n, T* out) {
  constexpr int64_t kColumns = 128;
  const int64_t grain = std::max<int64_t>(1, 32768 / (kColumns * std::max<int64_t>(rows, 1)));
  parallel_for((n + kColumns - 1) / kColumns, grain, [&](int64_t piece, int64_t end) {
    for (; piece < end; ++piece) {
      const int64_t first = piece * kColumns, some = std::min(kColumns, n - first);
      A total[kColumns] = {}, block[kColumns];
      for (int64_t i = 0; i < rows; i += 64) {
        std::fill_n(block, some, A(0));
        for (int64_t r = i; r < std::min(rows, i + 64); ++r)
          for (int64_t j = 0; j < some; ++j) block[j] += A(g[r * n + first + j]);
        for (int64_t j = 0; j < some; ++j) total[j] += block[j];
      }
      for (int64_t j = 0; j < some; ++j) out[first + j] = T(total[j]);
    }
  });
}

void cpu_linear_backward(Call& c) {
  Tensor &w0 = c.tensor(2), &gx = c.out(0), &gw = c.out(1), &gb = c.out(2);
  int64_t mask = c.integer(3);
  TensorRef gr = contiguous(c.tensor(0)), xr, wr;
  bool conj = is_complex(gr->dtype);
  if (mask & 2) xr = conj ? conj_copy(c.tensor(1)) : contiguous(c.tensor(1));
  if (mask & 1) wr = conj ? conj_copy(w0) : TensorRef::borrow(&w0);
  int64_t n = w0.ndim == 2 ? w0.size(0) : 1, k = w0.size(w0.ndim - 1), m = 1;
  for (int d = 0; d + 1 < c.tensor(1).ndim; ++d) m *= c.tensor(1).size(d);
  DType dtype = gr->dtype;
  const Tensor &g = *gr;
  LockRelease lock(m * n * std::max<int64_t>(k, 1) / 8);
  if (mask & 1) {
    const Tensor& w = *wr;
    int64_t rs = w.ndim == 2 ? w.strides[0] : k;
    gemm_any(dtype, m, k, n, {g.data, n, 1}, {w.data, rs, w.strides[w.ndim - 1]}, gx.data, k, 1, 0);
  }
  if (mask & 2) gemm_any(dtype, n, k, m, {g.data, 1, n}, {xr->data, k, 1}, gw.data, k, 1, 0);
  if (mask & 4) switch (dtype) {
    case DType::Float32: sum_rows<float, float>(g.ptr<float>(), m, n, gb.ptr<float>()); break;
    case DType::Float64: sum_rows<double, double>(g.ptr<double>(), m, n, gb.ptr<double>()); break;
    case DType::Float16: sum_rows<float16, float>(g.ptr<float16>(), m, n, gb.ptr<float16>()); break;
    case DType::BFloat16: sum_rows<bfloat16, float>(g.ptr<bfloat16>(), m, n, gb.ptr<bfloat16>()); break;
    case DType::Complex64: sum_rows<complex64, complex64>(g.ptr<complex64>(), m, n, gb.ptr<complex64>()); break;
    case DType::Complex128: sum_rows<complex128, complex128>(g.ptr<complex128>(), m, n, gb.ptr<complex128>()); break;
    default: runtime_error("linear_backward: not offered for dtype ", dtype_name(dtype));
  }
}

const Primitives rows{
    {"mm", infer_mm, cpu_mm, Images::Read},
    {"bmm", infer_bmm, cpu_bmm, Images::Read},
    {"mv", infer_mv, cpu_mv},
    {"dot", infer_dot, cpu_dot, Infer::Pure, dot_accepts},
    {"matmul", infer_matmul, cpu_matmul, Images::Read},
    {"addmm", infer_addmm, cpu_add_product},
    {"baddbmm", infer_baddbmm, cpu_add_product},
    {"linear", infer_linear, cpu_linear, Images::Read},
    {"linear_backward", infer_linear_backward, cpu_linear_backward, Images::Read},
};

}  // namespace
}  // namespace flambeau

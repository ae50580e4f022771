// The reductions: what each one accumulates, and the shapes and dtypes of their results.
#include "folds.h"
#include "row_loops.h"
#include "rows.h"

namespace flambeau {
namespace {

int64_t reduced_count(const Tensor& x, uint64_t mask) {
  int64_t n = 1;
  for (int d = 0; d < x.ndim; ++d)
    if (mask >> d & 1) n *= x.sizes[d];
  return n;
}

template <class F>
void fold(const Tensor& x, Tensor& out, uint64_t mask, Finish finish = Finish::None, int64_t count = 1) {
  Tensor &dense = out;
  {
    LockRelease lock(x.numel);
    run_reduction(Fold<F>{dense.data, out.dtype, finish, count}, x, mask);
  }
}

[[noreturn]] void no_dtype(const Call& c, DType t) {
  not_implemented(c.name(), ": not implemented for ", dtype_name(t));
}

// --- sum, mean, nansum, prod (self, dim, keepdim, dtype)
// ----------------------------------------------------------------
DType sum_dtype(const Call& c, int k) {
  if (c.has(k)) return c.args[k].dtype;
  DType t = c.tensor(0).dtype;
  return category(t) <= Category::Integer ? DType::Int64 : t;
}
void infer_sum(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  c.output(reduced_shape(x, mask, c.boolean(2)), sum_dtype(c, 3), x.device);
}
void infer_mean(Call& c) {
  Tensor& x = c.tensor(0);
  DType t = c.dtype_or(3, x.dtype);
  if (!is_differentiable(t))
    runtime_error("mean: the mean of ", dtype_name(t), " is not of that dtype; convert the tensor (x.float()), or pass "
                  "dtype=");
  infer_sum(c);
}
template <class Map>
void cpu_add(Call& c, Finish finish) {
  Tensor& out = c.out();
  TensorRef x = in_dtype(c.tensor(0), out.dtype == DType::Bool ? DType::Bool : out.dtype);
  uint64_t mask = dims_mask(c, 1, x->ndim);
  int64_t n = reduced_count(*x, mask);
  if (category(x->dtype) <= Category::Integer) return fold<Add<int64_t, int64_t, Same>>(*x, out, mask);
  switch (x->dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return fold<Add<float, double, Map>>(*x, out, mask, finish, n);
    case DType::Float64: return fold<Add<double, double, Map>>(*x, out, mask, finish, n);
    case DType::Complex64: return fold<Add<complex64, complex128, Same>>(*x, out, mask, finish, n);
    case DType::Complex128: return fold<Add<complex128, complex128, Same>>(*x, out, mask, finish, n);
    default: no_dtype(c, x->dtype);
  }
}
// Sums of bool and uint8 read bytes as they are: an eighth of the memory that int64 would take.
struct ByteSum {
  using T = uint8_t;
  using Acc = int64_t;
  static constexpr bool kFold = true;
  char* out;
  DType dtype;
  Acc init() const { return 0; }
  void merge(Acc& a, const Acc& b) const { a += b; }
  void block(Acc& acc, const T* p, int64_t n, int64_t) const {
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += p[i];
    acc += sum;
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t) const {
    uint16_t part[kColumns] = {};
    for (int r = 0; r < n; ++r)
      for (int64_t j = 0; j < w; ++j) part[j] = uint16_t(part[j] + rows[r][j]);
    for (int64_t j = 0; j < w; ++j) acc[j] += part[j];
  }
  void store(int64_t o, const Acc& acc) const { put<Acc>(out, dtype, o, acc); }
};
void cpu_sum(Call& c) {
  Tensor &x = c.tensor(0), &out = c.out();
  if ((x.dtype == DType::Bool || x.dtype == DType::UInt8) && category(out.dtype) == Category::Integer) {
    LockRelease lock(x.numel);
    return run_reduction(ByteSum{out.data, out.dtype}, x, dims_mask(c, 1, x.ndim));
  }
  cpu_add<Same>(c, Finish::None);
}
void cpu_mean(Call& c) { cpu_add<Same>(c, Finish::Divide); }
void cpu_nansum(Call& c) {
  if (is_complex(c.tensor(0).dtype)) runtime_error("nansum: does not support complex inputs");
  cpu_add<NanToZero>(c, Finish::None);
}
void cpu_prod(Call& c) {
  Tensor& out = c.out();
  TensorRef x = in_dtype(c.tensor(0), out.dtype);
  uint64_t mask = dims_mask(c, 1, x->ndim);
  if (category(x->dtype) <= Category::Integer) return fold<Multiply<int64_t>>(*x, out, mask);
  switch (x->dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return fold<Multiply<float>>(*x, out, mask);
    case DType::Float64: return fold<Multiply<double>>(*x, out, mask);
    case DType::Complex64: return fold<Multiply<complex64>>(*x, out, mask);
    case DType::Complex128: return fold<Multiply<complex128>>(*x, out, mask);
    default: no_dtype(c, x->dtype);
  }
}

// --- any, all (self, dim, keepdim)
// ------------------------------------------------------------------------------------
void infer_any(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  c.output(reduced_shape(x, mask, c.boolean(2)), x.dtype == DType::UInt8 ? DType::UInt8 : DType::Bool, x.device);
}
template <class F>
void cpu_any(Call& c) {
  Tensor& x = c.tensor(0);
  if (!loader_of<uint8_t>(x.dtype)) no_dtype(c, x.dtype);
  fold<F>(x, c.out(), dims_mask(c, 1, x.ndim), Finish::Flag);
}

// --- extremes
// -----------------------------------------------------------------------------------------------------------
void require_elements(const Call& c, const Tensor& x, uint64_t mask, bool by_dim, ErrorKind kind) {
  if (is_complex(x.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
  if (x.numel) return;
  if (!by_dim)
    fail(kind, c.name(), "(): a tensor without elements has no such value; pass the dim to reduce, if another "
         "dimension is empty");
  for (int d = 0; d < x.ndim; ++d)
    if ((mask >> d & 1) && x.sizes[d] == 0)
      index_error(c.name(), "(): dim ", d, " has size 0, so there is nothing to reduce");
}
// calls f.template operator()<T>() with the type extremes are compared in
template <class F>
void visit_ordered(const Call& c, DType t, F&& f) {
  switch (t) {
    case DType::Bool:
    case DType::UInt8: return f.template operator()<uint8_t>();
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return f.template operator()<float>();
    case DType::Float64: return f.template operator()<double>();
    case DType::Int32: return f.template operator()<int32_t>();
    case DType::UInt64: return f.template operator()<uint64_t>();
    default:
      if (!is_integral(t)) no_dtype(c, t);
      return f.template operator()<int64_t>();
  }
}
// amax(self, dim, keepdim), max.all(self)
void infer_amax(Call& c) {
  Tensor& x = c.tensor(0);
  bool given = c.nargs > 1 && c.has(1) && !(c.args[1].tag == Tag::Ints && c.args[1].ints.size == 0);
  uint64_t mask = c.nargs > 1 ? dims_mask(c, 1, x.ndim) : ~uint64_t(0);
  if (x.numel == 0 && c.nargs == 1)
    runtime_error(std::string_view(c.name()).substr(0, 3), "(): a tensor without elements has no such value; pass the "
                  "dim to reduce, if another dimension is empty");
  require_elements(c, x, mask, given, ErrorKind::Runtime);
  c.output(reduced_shape(x, mask, c.nargs > 1 && c.boolean(2)), x.dtype, x.device);
}
template <template <class, class> class F>
void cpu_amax(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = c.nargs > 1 ? dims_mask(c, 1, x.ndim) : ~uint64_t(0);
  TensorRef y = c.out().dtype == x.dtype ? TensorRef::borrow(&x) : to_dtype(x, c.out().dtype);
  visit_ordered(c, y->dtype, [&]<class T>() { fold<F<T, Same>>(*y, c.out(), mask); });
}

// aminmax(self, dim, keepdim) -> (min, max)
void infer_aminmax(Call& c) {
  infer_amax(c);
  Tensor& first = c.out();
  c.output(first.shape(), first.dtype, first.device);
}
void cpu_aminmax(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  visit_ordered(c, x.dtype, [&]<class T>() {
    fold<Minimum<T>>(x, c.out(0), mask);
    fold<Maximum<T>>(x, c.out(1), mask);
  });
}

template <class T> bool is_nan(T v) { return v != v; }

template <class T_, bool largest>
struct Extreme {
  using T = T_;
  struct Acc {
    T value;
    int64_t index;
  };
  static constexpr bool kFold = false;
  char* values;  // null: not wanted
  DType dtype;
  int64_t* indices;

  using Ext = std::conditional_t<largest, Maximum<T>, Minimum<T>>;
  static bool better(T a, T b) { return (largest ? a > b : a < b) || (is_nan(a) && !is_nan(b)); }
  Acc init() const { return {T(0), -1}; }
  void merge(Acc& a, const Acc& b) const {
    if (b.index >= 0 && (a.index < 0 || better(b.value, a.value))) a = b;
  }
  void block(Acc& acc, const T* p, int64_t n, int64_t base) const {
    T best = Ext::zero();
    Fold<Ext>{nullptr, dtype}.block(best, p, n, 0);
    if (acc.index >= 0 && !better(best, acc.value)) return;
    int64_t i = 0;
    if (is_nan(best)) while (!is_nan(p[i])) ++i;
    else while (p[i] != best) ++i;
    acc = {best, base + i};
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t base) const {
    constexpr int L = kLanes<T>;
    using I = LaneInt<T>;
    alignas(32) T value[kColumns];
    alignas(32) I index[kColumns];
    const int64_t whole = w / L * L;
    std::memcpy(value, rows[0], size_t(w) * sizeof(T));
    std::memset(index, 0, size_t(w) * sizeof(I));
    for (int r = 1; r < n; ++r) {
      for (int64_t j = 0; j < whole; j += L) {
        Vector<T> x = load_vector(rows[r] + j), m = load_vector(value + j);
        auto take = (largest ? x > m : x < m) | ((x != x) & (m == m));
        store_vector(value + j, take ? x : m);
        store_vector(index + j, take ? splat<I>(I(r)) : load_vector(index + j));
      }
      for (int64_t j = whole; j < w; ++j)
        if (better(rows[r][j], value[j])) {
          value[j] = rows[r][j];
          index[j] = I(r);
        }
    }
    for (int64_t j = 0; j < w; ++j)
      if (acc[j].index < 0 || better(value[j], acc[j].value)) acc[j] = {value[j], base + int64_t(index[j])};
  }
  void store(int64_t o, const Acc& acc) const {
    if (values) put<T>(values, dtype, o, acc.value);
    indices[o] = acc.index;
  }
};

// argmax(self, dim, keepdim); max.dim(self, dim, keepdim)
void infer_argmax(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  require_elements(c, x, mask, c.has(1), ErrorKind::Index);
  c.output(reduced_shape(x, mask, c.boolean(2)), DType::Int64, x.device);
}
void infer_max_dim(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  if (is_complex(x.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
  for (int d = 0; d < x.ndim; ++d)
    if ((mask >> d & 1) && x.sizes[d] == 0)
      index_error(std::string_view(c.name()).substr(0, 3), "(): dim ", d, " has size 0, so there is nothing to reduce");
  Shape s = reduced_shape(x, mask, c.boolean(2));
  c.output(s, x.dtype, x.device);
  c.output(s, DType::Int64, x.device);
}
template <bool largest>
void extreme(Call& c, Tensor* values, Tensor& indices) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  Tensor &index = indices, &value = values ? *values : indices;
  visit_ordered(c, x.dtype, [&]<class T>() {
    LockRelease lock(x.numel);
    run_reduction(Extreme<T, largest>{values ? value.data : nullptr, x.dtype, index.ptr<int64_t>()}, x, mask, true);
  });
}
template <bool largest>
void cpu_argmax(Call& c) { extreme<largest>(c, nullptr, c.out()); }
template <bool largest>
void cpu_max_dim(Call& c) { extreme<largest>(c, &c.out(0), c.out(1)); }

// --- var, std, var_mean, std_mean (self, dim, correction, keepdim)
// ------------------------------------------------------
template <int results>
void infer_var(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  if (!is_floating(x.dtype)) runtime_error(c.name(), ": expected a floating point tensor, got ", dtype_name(x.dtype));
  Shape s = reduced_shape(x, mask, c.boolean(3));
  for (int k = 0; k < results; ++k) c.output(s, x.dtype, x.device);
}
template <bool root, bool with_mean>
void cpu_var(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
  double correction = c.has(2) ? c.scalar(2).to<double>() : 1.0;
  Tensor &spread = c.out(), &mean = c.out(with_mean ? 1 : 0);
  {
    LockRelease lock(x.numel);
    char *to = spread.data, *m = with_mean ? mean.data : nullptr;
    DType t = c.out().dtype;
    run_moments(c.name(), x, mask, [=](int64_t o, double n, double average, double m2) {
      double value = n == 0 ? NAN : m2 / std::max(0.0, n - correction);
      put<double>(to, t, o, root ? std::sqrt(value) : value);
      if (m) put<double>(m, t, o, n == 0 ? NAN : average);
    });
  }
}

// --- _vector_norm(self, ord, dim, keepdim, dtype)
// ------------------------------------------------------------------------
template <class T_>
struct PowerSum {
  using T = T_;
  using Acc = double;
  static constexpr bool kFold = true;
  char* out;
  DType dtype;
  double p;
  Acc init() const { return 0; }
  void merge(Acc& a, const Acc& b) const { a += b; }
  void block(Acc& acc, const T* x, int64_t n, int64_t) const {
    for (int64_t i = 0; i < n; ++i) acc += double(std::pow(std::abs(x[i]), T(p)));
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t) const {
    for (int r = 0; r < n; ++r)
      for (int64_t j = 0; j < w; ++j) acc[j] += double(std::pow(std::abs(rows[r][j]), T(p)));
  }
  void store(int64_t o, const Acc& acc) const { put<double>(out, dtype, o, std::pow(acc, 1.0 / p)); }
};
void infer_vector_norm(Call& c) {
  Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 2, x.ndim);
  if (!is_floating(x.dtype)) runtime_error("vector_norm: expected floating-point or complex numbers, got ",
                                           dtype_name(x.dtype));
  double p = c.real(1);
  if (x.numel == 0 && (p < 0 || std::isinf(p)))
    for (int d = 0; d < x.ndim; ++d)
      if ((mask >> d & 1) && x.sizes[d] == 0)
        runtime_error("linalg.vector_norm: the ", p, " norm of no elements is not defined, and dimension ", d,
                      " is empty");
  c.output(reduced_shape(x, mask, c.boolean(3)), c.dtype_or(4, x.dtype), x.device);
}
void cpu_vector_norm(Call& c) {
  Tensor& out = c.out();
  TensorRef x = in_dtype(c.tensor(0), out.dtype);
  uint64_t mask = dims_mask(c, 2, x->ndim);
  double p = c.real(1);
  auto run = [&]<class T>() {
    if (p == 2) return fold<Add<T, double, Square>>(*x, out, mask, Finish::Root);
    if (p == 1) return fold<Add<T, double, Magnitude>>(*x, out, mask);
    if (p == 0) return fold<Add<T, double, Truth>>(*x, out, mask);
    if (p == INFINITY) return fold<Maximum<T, Magnitude>>(*x, out, mask);
    if (p == -INFINITY) return fold<Minimum<T, Magnitude>>(*x, out, mask);
    Tensor &dense = out;
    run_reduction(PowerSum<T>{dense.data, out.dtype, p}, *x, mask);
  };
  if (x->dtype == DType::Float64) run.template operator()<double>();
  else if (loader_of<float>(x->dtype)) run.template operator()<float>();
  else no_dtype(c, x->dtype);
}

// --- logsumexp(self, dim, keepdim)
// -----------------------------------------------------------------------------------------
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
    constexpr int L = kLanes<T>;
    T top = -INFINITY;
    Fold<Maximum<T>>{nullptr, dtype}.block(top, p, n, 0);
    if (std::isinf(top)) {
      if (top > 0) merge(acc, {double(top), 1});
      return;
    }
    double sum = 0;
    if constexpr (std::is_same_v<T, float>) {
      sum = row_loops().exp_sum(p, nullptr, top, n);
    } else {
      Vector<T> total{};
      int64_t i = 0;
      for (; i + L <= n; i += L) total += exp_vector<T>(load_vector(p + i) - top);
      for (int k = 0; k < L; ++k) sum += double(total[k]);
      for (; i < n; ++i) sum += double(std::exp(p[i] - top));
    }
    merge(acc, {double(top), sum});
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t) const {
    alignas(32) T top[kColumns], sum[kColumns];
    std::memcpy(top, rows[0], size_t(w) * sizeof(T));
    for (int r = 1; r < n; ++r)
      each<T>(w,
              [&](int64_t j, int k) { give<T>(top + j, Maximum<T>::join(take(top + j, k), take(rows[r] + j, k)), k); });
    std::fill(sum, sum + w, T(0));
    for (int r = 0; r < n; ++r) {
      if constexpr (std::is_same_v<T, float>) {
        float unused[kColumns];
        row_loops().columns_exp(rows[r], top, sum, unused, w, false);
      } else {
        each<T>(w, [&](int64_t j, int k) {
          give<T>(sum + j, take(sum + j, k) + exp_vector<T>(take(rows[r] + j, k) - take(top + j, k)), k);
        });
      }
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
  uint64_t mask = dims_mask(c, 1, x.ndim);
  c.output(reduced_shape(x, mask, c.boolean(2)), is_differentiable(x.dtype) ? x.dtype : default_dtype(), x.device);
}
// Complex: row by row in complex128, around the largest real part.
void logsumexp_complex(Call& c) {
  const Tensor& x = c.tensor(0);
  uint64_t mask = dims_mask(c, 1, x.ndim);
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
  uint64_t mask = dims_mask(c, 1, x->ndim);
  Tensor &dense = c.out();
  {
    LockRelease lock(x->numel);
    if (x->dtype == DType::Float64) run_reduction(LogSumExp<double>{dense.data, c.out().dtype}, *x, mask);
    else if (loader_of<float>(x->dtype)) run_reduction(LogSumExp<float>{dense.data, c.out().dtype}, *x, mask);
    else no_dtype(c, x->dtype);
  }
}

const Primitives rows{
    {"sum", infer_sum, cpu_sum},
    {"mean", infer_mean, cpu_mean},
    {"nansum", infer_sum, cpu_nansum},
    {"prod", infer_sum, cpu_prod},
    {"any", infer_any, cpu_any<AnyBits>},
    {"all", infer_any, cpu_any<AllBits>},
    {"amax", infer_amax, cpu_amax<Maximum>},
    {"amin", infer_amax, cpu_amax<Minimum>},
    {"aminmax", infer_aminmax, cpu_aminmax},
    {"max.all", infer_amax, cpu_amax<Maximum>},
    {"min.all", infer_amax, cpu_amax<Minimum>},
    {"max.dim", infer_max_dim, cpu_max_dim<true>},
    {"min.dim", infer_max_dim, cpu_max_dim<false>},
    {"argmax", infer_argmax, cpu_argmax<true>},
    {"argmin", infer_argmax, cpu_argmax<false>},
    {"var.correction", infer_var<1>, cpu_var<false, false>},
    {"std.correction", infer_var<1>, cpu_var<true, false>},
    {"var_mean.correction", infer_var<2>, cpu_var<false, true>},
    {"std_mean.correction", infer_var<2>, cpu_var<true, true>},
    {"_vector_norm", infer_vector_norm, cpu_vector_norm},
    {"logsumexp", infer_logsumexp, cpu_logsumexp},
};

}  // namespace
}  // namespace flambeau

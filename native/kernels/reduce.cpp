// Sums, products, truth, variances and norms: what each accumulates, and the shapes and dtypes of their results.
#include "folds.h"
#include "half_total.h"

namespace flambeau {
namespace {

int64_t reduced_count(const Tensor& x, uint64_t mask) {
  int64_t n = 1;
  for (int d = 0; d < x.ndim; ++d)
    if (mask >> d & 1) n *= x.sizes[d];
  return n;
}

// --- sum, mean, nansum, prod (self, dim, keepdim, dtype) -------------------------------------------------------------
DType sum_dtype(const Call& c, int k) {
  if (c.has(k)) return c.args[k].dtype;
  DType t = c.tensor(0).dtype;
  return category(t) <= Category::Integer ? DType::Int64 : t;
}
void infer_sum(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.hand_over(dims_mask(c, 1, x.ndim));
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
// Sums of halves are widened in registers.
struct HalfSum {
  using T = uint16_t;
  using Acc = double;
  static constexpr bool kFold = true;
  HalfTotal total;
  HalfColumns total_of_columns;
  Fold<Add<float, double, Same>> result;

  Acc init() const { return 0; }
  void merge(Acc& a, const Acc& b) const { a += b; }
  void block(Acc& acc, const T* p, int64_t n, int64_t) const {
    for (int64_t k = 0; k < n; k += kBlock) acc += total(std::min(kBlock, n - k), p + k);
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t) const {
    total_of_columns(acc, rows, n, w);
  }
  void store(int64_t o, const Acc& acc) const { result.store(o, acc); }
  void store_run(int64_t o, int64_t step, const Acc* acc, int64_t n) const { result.store_run(o, step, acc, n); }
};
void sum_halves(const Tensor& x, Tensor& out, uint64_t mask, Finish finish, int64_t count) {
  LockRelease lock(x.numel);
  const HalfSum sum{half_total(x.dtype), half_columns_total(x.dtype), {out.data, out.dtype, finish, count}};
  run_reduction(sum, x, mask);
}
template <class Map>
void cpu_add(Call& c, Finish finish) {
  Tensor& out = c.out();
  TensorRef x = in_dtype(c.tensor(0), out.dtype == DType::Bool ? DType::Bool : out.dtype);
  const uint64_t mask = c.handed<uint64_t>();
  int64_t n = reduced_count(*x, mask);
  if (category(x->dtype) <= Category::Integer) return fold<Add<int64_t, int64_t, Same>>(*x, out, mask);
  if (std::is_same_v<Map, Same> && is_half(x->dtype)) return sum_halves(*x, out, mask, finish, n);
  switch (x->dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return fold<Add<float, double, Map>>(*x, out, mask, finish, n);
    case DType::Float64: return fold<Add<double, double, Map>>(*x, out, mask, finish, n);
    case DType::Complex64: return fold<Add<complex64, complex128, Same>>(*x, out, mask, finish, n);
    case DType::Complex128: return fold<Add<complex128, complex128, Same>>(*x, out, mask, finish, n);
    default: no_loop_for(c, x->dtype);
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
    return run_reduction(ByteSum{out.data, out.dtype}, x, c.handed<uint64_t>());
  }
  cpu_add<Same>(c, Finish::None);
}
void cpu_mean(Call& c) { cpu_add<Same>(c, Finish::Divide); }
void infer_nansum(Call& c) {
  if (is_complex(c.tensor(0).dtype)) runtime_error("nansum: does not support complex inputs");
  infer_sum(c);
}
void cpu_nansum(Call& c) {
  cpu_add<NanToZero>(c, Finish::None);
}
void cpu_prod(Call& c) {
  Tensor& out = c.out();
  TensorRef x = in_dtype(c.tensor(0), out.dtype);
  const uint64_t mask = c.handed<uint64_t>();
  if (category(x->dtype) <= Category::Integer) return fold<Multiply<int64_t>>(*x, out, mask);
  switch (x->dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return fold<Multiply<float>>(*x, out, mask);
    case DType::Float64: return fold<Multiply<double>>(*x, out, mask);
    case DType::Complex64: return fold<Multiply<complex64>>(*x, out, mask);
    case DType::Complex128: return fold<Multiply<complex128>>(*x, out, mask);
    default: no_loop_for(c, x->dtype);
  }
}

// --- any, all (self, dim, keepdim): of an empty list of dimensions, unlike without one, each element alone -----------
void infer_any(Call& c) {
  Tensor& x = c.tensor(0);
  const bool none = c.args[1].tag == Tag::Ints && c.ints(1).empty();
  const uint64_t mask = c.hand_over(none ? uint64_t(0) : dims_mask(c, 1, x.ndim));
  c.output(reduced_shape(x, mask, c.boolean(2)), x.dtype == DType::UInt8 ? DType::UInt8 : DType::Bool, x.device);
}
template <class F>
void cpu_any(Call& c) {
  const Tensor& given = c.tensor(0);
  const bool narrow = is_float8(given.dtype) && given.dtype != DType::Float4_e2m1fn_x2;
  TensorRef x = narrow ? to_dtype(given, DType::Float32) : TensorRef::borrow(&c.tensor(0));
  if (!loader_of<uint8_t>(x->dtype)) no_loop_for(c, x->dtype);
  fold<F>(*x, c.out(), c.handed<uint64_t>(), Finish::Flag);
}

// --- var, std, var_mean, std_mean (self, dim, correction, keepdim) ---------------------------------------------------
template <int results>
void infer_var(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.hand_over(dims_mask(c, 1, x.ndim));
  if (!is_floating(x.dtype)) runtime_error(c.name(), ": expected a floating point tensor, got ", dtype_name(x.dtype));
  Sizes s = reduced_shape(x, mask, c.boolean(3));
  for (int k = 0; k < results; ++k) c.output(s, x.dtype, x.device);
}
template <bool root, bool with_mean>
void cpu_var(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.handed<uint64_t>();
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

// --- _vector_norm(self, ord, dim, keepdim, dtype) --------------------------------------------------------------------
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
  const uint64_t mask = c.hand_over(dims_mask(c, 2, x.ndim));
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
  const uint64_t mask = c.handed<uint64_t>();
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
  else no_loop_for(c, x->dtype);
}

const Primitives rows{
    {"sum", infer_sum, cpu_sum},
    {"mean", infer_mean, cpu_mean},
    {"nansum", infer_nansum, cpu_nansum},
    {"prod", infer_sum, cpu_prod},
    {"any", infer_any, cpu_any<AnyBits>},
    {"all", infer_any, cpu_any<AllBits>},
    {"var.correction", infer_var<1>, cpu_var<false, false>},
    {"std.correction", infer_var<1>, cpu_var<true, false>},
    {"var_mean.correction", infer_var<2>, cpu_var<false, true>},
    {"std_mean.correction", infer_var<2>, cpu_var<true, true>},
    {"_vector_norm", infer_vector_norm, cpu_vector_norm},
};

}  // namespace
}  // namespace flambeau

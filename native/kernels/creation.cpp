// New tensors from sizes and numbers: empty, full, ranges, identity, triangles of indices.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cast.h"
#include "options.h"

namespace flambeau {

void check_pinning(const Call& c, Device device) {
  if (!has_device({DeviceType::CUDA, -1}))
    runtime_error(c.name(), ": pin_memory=True needs a CUDA device; pinned memory is not available here");
  if (device.type != DeviceType::CPU)
    runtime_error(c.name(), ": pin_memory=True is for memory of the CPU, and the result is on ", device_name(device));
}
void pin(Tensor& t) {
  Storage* s = devices[int(DeviceType::CUDA)].pinned(t.storage->nbytes);
  release(std::exchange(t.storage, s));
  t.data = static_cast<char*>(s->data);
}

namespace {

// --- filled with one number ------------------------------------------------------------------------------------------

void infer_empty(Call& c) { create(c, c.ints(0), read_options(c, 1, default_dtype())); }
// (int[] size, *, dtype …, memory_format)
void infer_empty_format(Call& c) {
  Options o = read_options(c, 1, default_dtype());
  if (c.integer_or(6, 0) == 0 || c.integer_or(6, 0) == 3) return void(create(c, c.ints(0), o));
  check_size(c, c.ints(0));
  Device meta{DeviceType::Meta, -1};
  TensorRef shape = empty(c.ints(0), o.dtype, meta);
  finish(c.output(c.ints(0), o.dtype, o.device, format_strides(c, *shape, c.integer(6))), o);
}
template <int64_t N>
void cpu_number(Call& c) { fill(c.out(), Scalar(N)); }

// (int[] size, Scalar fill_value, *, dtype …): the number decides the dtype when none is asked for
void infer_full(Call& c) { create(c, c.ints(0), read_options(c, 2, c.scalar(1).dtype(default_dtype()))); }
void cpu_full(Call& c) { fill(c.out(), c.scalar(1)); }

void infer_empty_strided(Call& c) {
  Dims size = c.ints(0), strides = c.ints(1);
  if (size.size() != strides.size())
    runtime_error(c.name(), ": expected one stride per size, got ", size.size(), " sizes and ", strides.size(),
                  " strides");
  Options o = read_options(c, 2, default_dtype());
  check_size(c, size);
  finish(c.output(size, o.dtype, o.device, strides), o);
}

// (self[, value], *, dtype, layout, device, requires_grad, pin_memory, memory_format)
template <int At>
void infer_like(Call& c) {
  const Tensor& t = c.tensor(0);
  Options o = read_options(c, At, t.dtype, t.device);
  int64_t format = c.integer_or(At + 5, 3);
  bool plain = format == 3 && t.contiguous();
  finish(plain ? c.output(t.shape(), o.dtype, o.device)
               : c.output(t.shape(), o.dtype, o.device, format_strides(c, t, format)),
         o);
}
// (self, int[] size[, value], *, dtype, layout, device, requires_grad, pin_memory)
template <int At>
void infer_new(Call& c) {
  const Tensor& t = c.tensor(0);
  create(c, c.ints(1), read_options(c, At, t.dtype, t.device));
}
template <int At>
void cpu_value(Call& c) { fill(c.out(), c.scalar(At)); }

// fill_ and zero_
void infer_fill_(Call& c) { write_self(c); }
void cpu_fill_(Call& c) { fill(c.out(), c.scalar(1)); }
void infer_fill_tensor_(Call& c) {
  if (c.tensor(1).ndim != 0)
    runtime_error(c.name(), ": the value must be a number or a tensor without dimensions, got ", int(c.tensor(1).ndim),
                  " dimensions");
  write_self(c);
}
void cpu_fill_tensor_(Call& c) {
  TensorRef value = to_dtype(c.tensor(1), c.out().dtype);  // self may be its own source
  if (value->storage == c.out().storage) {
    TensorRef copy = empty({}, value->dtype);
    copy_into(*copy, *value);
    value = copy;
  }
  copy_into(c.out(), *value);
}

// --- ranges ----------------------------------------------------------------------------------------------------------

struct Range {
  Scalar start{0}, end{0}, step{1};
  bool integral;
  int64_t count = 0;
};

double number(const Scalar& s) { return s.to<double>(); }

// (Scalar? start, Scalar? end, Scalar step, *, dtype …): a lone number is the end
Range read_range(const Call& c) {
  Range r;
  if (!c.has(0) && !c.has(1))
    type_error(c.name(), ": expected arange(end), arange(start, end) or arange(start, end, step)");
  if (c.has(0) && c.has(1)) r.start = c.scalar(0), r.end = c.scalar(1);
  else r.end = c.has(1) ? c.scalar(1) : c.scalar(0);
  r.step = c.scalar(2);
  for (const Scalar& s : {r.start, r.end, r.step})
    if (s.category == Category::Complex) not_implemented(c.name(), ": complex numbers have no order");
  r.integral = r.start.integral() && r.end.integral() && r.step.integral();
  if (number(r.step) == 0) runtime_error(c.name(), ": step must be nonzero");
  double start = number(r.start), end = number(r.end), step = number(r.step);
  if (!std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step))
    runtime_error(c.name(), ": unsupported range: ", start, " -> ", end, " (step ", step, ")");
  if (step > 0 ? end < start : end > start)
    runtime_error(c.name(), ": with step ", step, " one never gets from ", start, " to ", end);
  return r;
}

// How many numbers there are. For int64 the range is truncated first; other integers are counted before that.
void count_range(const Call& c, Range& r, DType dtype) {
  const double largest = std::max(std::abs(number(r.start)), std::abs(number(r.end)));
  if (r.integral || (dtype == DType::Int64 && largest < 0x1p63 && std::abs(number(r.step)) < 0x1p63)) {
    auto whole = [](const Scalar& s) { return s.huge ? __int128(uint64_t(s.i)) : __int128(s.to<int64_t>()); };
    __int128 start = whole(r.start), pace = whole(r.step), span = whole(r.end) - start;
    if (pace == 0) value_error(c.name(), ": step must be nonzero; ", number(r.step), " becomes 0 in int64");
    __int128 n = std::max<__int128>((span + (pace > 0 ? pace - 1 : pace + 1)) / pace, 0);
    if (n > INT64_MAX) runtime_error(c.name(), ": invalid size, possible overflow");
    r.count = int64_t(n);
  } else {
    double n = std::ceil((number(r.end) - number(r.start)) / number(r.step));
    if (!(n < 0x1p63)) runtime_error(c.name(), ": invalid size, possible overflow");
    r.count = int64_t(n);
  }
}

void infer_arange(Call& c) {
  Range r = read_range(c);
  Options o = read_options(c, 3, r.integral ? DType::Int64 : default_dtype());
  if (o.dtype == DType::Bool || is_complex(o.dtype))
    not_implemented(c.name(), ": no range of dtype ", dtype_name(o.dtype));
  if (is_integral(o.dtype))
    for (const Scalar& s : {r.start, r.step})
      if (s.huge) check_fits(s, o.dtype);
  count_range(c, r, o.dtype);
  create(c, Dims(&r.count, 1), o);
  c.hand_over(r);
}

constexpr int64_t kGrain = 32768, kBlock = 1024;

// out[k] = f(k), k as a double: counted within blocks, which are loops of vectors. Threads share the blocks.
template <class T, class F>
void fill_by_place(T* out, int64_t n, F f) {
  LockRelease lock(n);
  parallel_for(n, kGrain, [&](int64_t at, int64_t end) {
    for (; at < end; at += kBlock) {
      const int count = int(std::min(kBlock, end - at));
      const double first = double(at);
      for (int i = 0; i < count; ++i) out[at + i] = f(first + i);
    }
  });
}
template <class T>
void fill_range(T* out, int64_t n, const Range& r) {
  if constexpr (std::is_integral_v<T>) {
    const uint64_t start = uint64_t(r.start.to<int64_t>()), step = uint64_t(r.step.to<int64_t>());
    LockRelease lock(n);
    parallel_for(n, kGrain, [&](int64_t k, int64_t end) {
      for (; k < end; ++k) out[k] = T(start + uint64_t(k) * step);
    });
  } else {
    const double start = number(r.start), step = number(r.step);
    fill_by_place(out, n, [=](double k) { return T(start + k * step); });
  }
}

// Computes in float64, float32 or int64 and converts to any other dtype.
template <class F>
void compute_as(Tensor& out, DType as, F f) {
  if (out.dtype == as && out.contiguous()) return f(out);
  TensorRef t = empty(out.shape(), as);
  f(*t);
  copy_into(out, *t);
}

void cpu_arange(Call& c) {
  const Range& r = c.handed<Range>();
  Tensor& out = c.out();
  if (is_integral(out.dtype)) {
    compute_as(out, DType::Int64, [&](Tensor& t) { fill_range(t.ptr<int64_t>(), t.numel, r); });
  } else if (out.dtype == DType::Float64) {
    compute_as(out, DType::Float64, [&](Tensor& t) { fill_range(t.ptr<double>(), t.numel, r); });
  } else {
    compute_as(out, DType::Float32, [&](Tensor& t) { fill_range(t.ptr<float>(), t.numel, r); });
  }
}

DType range_dtype(const Scalar& a, const Scalar& b) {
  bool complex = a.category == Category::Complex || b.category == Category::Complex;
  return complex ? complex_of(default_dtype()) : default_dtype();
}
// (Scalar start, Scalar end, int steps, *, dtype …); logspace has `float base` before the star
template <int Tail>
void infer_linspace(Call& c) {
  int64_t steps = c.integer(2);
  if (steps < 0) runtime_error(c.name(), ": steps must not be negative, got ", steps);
  Options o = read_options(c, Tail, range_dtype(c.scalar(0), c.scalar(1)));
  if (!is_complex(o.dtype) && (c.scalar(0).category == Category::Complex || c.scalar(1).category == Category::Complex))
    runtime_error(c.name(), ": complex ends need a complex dtype, got ", dtype_name(o.dtype));
  create(c, Dims(&steps, 1), o);
}

// Evenly spaced, from both ends inwards, so that the last element is exactly `end`.
template <class T, class F>
void fill_linspace(T* x, int64_t n, T start, T end, F f) {
  if (n == 1) {
    x[0] = f(start);
    return;
  }
  const T step = (end - start) / T(double(n - 1));
  const int64_t half = n / 2;
  const double last = double(n - 1 - half);
  fill_by_place(x, half, [=](double k) { return f(start + step * T(k)); });
  fill_by_place(x + half, n - half, [=](double k) { return f(end - step * T(last - k)); });
}

template <class F>
void run_linspace(Call& c, F f) {
  Tensor& out = c.out();
  Scalar a = c.scalar(0), b = c.scalar(1);
  auto run = [&]<class T>(DType as) {
    compute_as(out, as, [&](Tensor& t) { fill_linspace(t.ptr<T>(), t.numel, a.to<T>(), b.to<T>(), f); });
  };
  if (out.dtype == DType::Float32 || is_half(out.dtype)) run.template operator()<float>(DType::Float32);
  else if (is_complex(out.dtype)) run.template operator()<complex128>(DType::Complex128);
  else run.template operator()<double>(DType::Float64);
}
void cpu_linspace(Call& c) {
  Tensor& out = c.out();
  if (!is_integral(out.dtype)) return run_linspace(c, [](auto x) { return x; });
  compute_as(out, DType::Int64, [&](Tensor& t) {  // integers truncate their ends first
    int64_t start = c.scalar(0).to<int64_t>(), end = c.scalar(1).to<int64_t>(), n = t.numel;
    double step = n > 1 ? (double(end) - double(start)) / double(n - 1) : 0;
    const int64_t half = n == 1 ? 1 : n / 2;
    const double from = double(start), to = double(end), last = double(n - 1 - half);
    fill_by_place(t.ptr<int64_t>(), half, [=](double k) { return int64_t(from + step * k); });
    fill_by_place(t.ptr<int64_t>() + half, n - half, [=](double k) { return int64_t(to - step * (last - k)); });
  });
}
void cpu_logspace(Call& c) {
  double base = c.real(3);
  run_linspace(c, [base](auto x) {
    using T = decltype(x);
    return T(std::pow(T(base), x));
  });
}

// --- matrices --------------------------------------------------------------------------------------------------------

// (int n, int? m, *, dtype …)
void infer_eye(Call& c) {
  int64_t shape[2] = {c.integer(0), c.integer_or(1, c.integer(0))};
  if (shape[0] < 0) runtime_error(c.name(), ": n must not be negative, got ", shape[0]);
  if (shape[1] < 0) runtime_error(c.name(), ": m must not be negative, got ", shape[1]);
  create(c, shape, read_options(c, 2, default_dtype()));
}
void cpu_eye(Call& c) {
  Tensor& out = c.out();
  fill(out, Scalar(0));
  int64_t n = std::min(out.sizes[0], out.sizes[1]), step = out.strides[0] + out.strides[1];
  TensorRef diagonal = view_of(out, Dims(&n, 1), Dims(&step, 1), out.data);
  fill(*diagonal, Scalar(1));
}

// How many of the first indices each row has (lower) or leaves out (upper).
struct Triangle {
  int64_t row, column, offset;
  bool upper;
  int64_t from(int64_t r) const { return upper ? std::clamp<int64_t>(r + offset, 0, column) : 0; }
  int64_t to(int64_t r) const { return upper ? column : std::clamp<int64_t>(r + offset + 1, 0, column); }
};
template <bool Upper>
Triangle triangle(const Call& c) { return {c.integer(0), c.integer(1), c.integer(2), Upper}; }

// How many elements of a row by column matrix lie on or below diagonal `offset`, without visiting the rows.
__int128 below(int64_t row, int64_t column, int64_t offset) {
  int64_t first = std::clamp<int64_t>(-offset, 0, row);               // rows before it have none
  int64_t full = std::clamp<int64_t>(column - offset - 1, first, row);  // rows from it on have all
  __int128 partial = __int128(full - first) * (2 * (__int128(offset) + 1) + first + full - 1) / 2;
  return partial + __int128(row - full) * column;
}

template <bool Upper>
void infer_triangle(Call& c) {
  Triangle t = triangle<Upper>(c);
  if (t.row < 0 || t.column < 0) runtime_error(c.name(), ": row and col must not be negative, got ", t.row, " and ",
                                               t.column);
  constexpr int64_t most = int64_t(1) << 40;
  if (t.row > most || t.column > most || t.offset < -most || t.offset > most)
    runtime_error(c.name(), ": row, col and offset must be below 2^40");
  __int128 whole = __int128(t.row) * t.column;
  __int128 n = Upper ? whole - below(t.row, t.column, t.offset - 1) : below(t.row, t.column, t.offset);
  if (n > INT64_MAX / 2) runtime_error(c.name(), ": too many indices");
  Options o = read_options(c, 3, DType::Int64);
  if (o.dtype != DType::Int64 && o.dtype != DType::Int32)
    runtime_error(c.name(), ": expected dtype int64 or int32, got ", dtype_name(o.dtype));
  int64_t shape[2] = {2, int64_t(n)};
  create(c, shape, o);
}
template <bool Upper>
void cpu_triangle(Call& c) {
  Triangle t = triangle<Upper>(c);
  compute_as(c.out(), DType::Int64, [&](Tensor& out) {
    int64_t *rows = out.ptr<int64_t>(), *columns = rows + out.sizes[1];
    int64_t first = Upper ? 0 : std::clamp<int64_t>(-t.offset, 0, t.row);
    int64_t end = Upper ? std::clamp<int64_t>(t.column - t.offset, 0, t.row) : t.row;
    for (int64_t r = first; r < end && t.column; ++r)
      for (int64_t k = t.from(r); k < t.to(r); ++k) *rows++ = r, *columns++ = k;
  });
}

// Of the tensor that a result is to be like, its form: whether it has values yet does not matter.
bool only_form(const Call& c, const Tensor& t) { return c.args[0].tag == Tag::Tensor && c.args[0].tensor == &t; }

const Primitives rows{
    {"empty", infer_empty_format, nullptr},
    {"zeros", infer_empty, cpu_number<0>},
    {"ones", infer_empty, cpu_number<1>},
    {"full", infer_full, cpu_full},
    {"empty_strided", infer_empty_strided, nullptr},
    {"empty_like", infer_like<1>, nullptr},
    {"zeros_like", infer_like<1>, cpu_number<0>, Infer::Pure, only_form},
    {"ones_like", infer_like<1>, cpu_number<1>, Infer::Pure, only_form},
    {"full_like", infer_like<2>, cpu_value<1>, Infer::Pure, only_form},
    {"new_empty", infer_new<2>, nullptr},
    {"new_zeros", infer_new<2>, cpu_number<0>, Infer::Pure, only_form},
    {"new_ones", infer_new<2>, cpu_number<1>, Infer::Pure, only_form},
    {"new_full", infer_new<3>, cpu_value<2>, Infer::Pure, only_form},
    {"fill_scalar_", infer_fill_, cpu_fill_},
    {"fill_tensor_", infer_fill_tensor_, cpu_fill_tensor_},
    {"zero_", infer_fill_, cpu_number<0>},
    {"arange", infer_arange, cpu_arange},
    {"linspace", infer_linspace<3>, cpu_linspace},
    {"logspace", infer_linspace<4>, cpu_logspace},
    {"eye", infer_eye, cpu_eye},
    {"tril_indices", infer_triangle<false>, cpu_triangle<false>},
    {"triu_indices", infer_triangle<true>, cpu_triangle<true>},
};

}  // namespace
}  // namespace flambeau

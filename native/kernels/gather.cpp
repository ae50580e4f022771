// gather and scatter along one dimension, rows picked by number, embedding.
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>

#include "combine.h"
#include "options.h"
#include "steady.h"
#include "views.h"
#include "walk.h"

namespace flambeau {

namespace {

template <class T>
void add(char* a, const char* b) {
  T& x = *reinterpret_cast<T*>(a);
  const T& y = *reinterpret_cast<const T*>(b);
  if constexpr (std::is_same_v<T, bool>) x = x || y;
  else if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) x = T(float(x) + float(y));
  else if constexpr (std::is_integral_v<T>) x = T(uint64_t(x) + uint64_t(y));
  else x = x + y;
}
template <class T>
void multiply(char* a, const char* b) {
  T& x = *reinterpret_cast<T*>(a);
  const T& y = *reinterpret_cast<const T*>(b);
  if constexpr (std::is_same_v<T, bool>) x = x && y;
  else if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) x = T(float(x) * float(y));
  else if constexpr (std::is_integral_v<T>) x = T(uint64_t(x) * uint64_t(y));
  else x = x * y;
}
template <class T, bool Larger>
void extreme(char* a, const char* b) {
  if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) {
    runtime_error("complex numbers have no maximum or minimum");
  } else {
    T& x = *reinterpret_cast<T*>(a);
    const T& y = *reinterpret_cast<const T*>(b);
    if (x != x) return;  // NaN wins
    if (y != y || (Larger ? y > x : y < x)) x = y;
  }
}
template <class T>
void replace(char* a, const char* b) { std::memcpy(a, b, sizeof(T)); }

}  // namespace

CombineFn combine_function(Combine how, DType dtype) {
  return visit_dtype(dtype, [&]<class T>() -> CombineFn {
    switch (how) {
      case Combine::Add: return add<T>;
      case Combine::Multiply: return multiply<T>;
      case Combine::Max: return extreme<T, true>;
      case Combine::Min: return extreme<T, false>;
      default: return replace<T>;
    }
  });
}

void add_run(DType dtype, char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n) {
  auto plain = [&]<class T>() {
    T* a = reinterpret_cast<T*>(out);
    const T* b = reinterpret_cast<const T*>(in);
    if (out_stride == 1 && in_stride == 1) {
      for (int64_t k = 0; k < n; ++k) a[k] += b[k];
    } else {
      for (int64_t k = 0; k < n; ++k) a[k * out_stride] += b[k * in_stride];
    }
  };
  if (dtype == DType::Float32) return plain.template operator()<float>();
  if (dtype == DType::Float64) return plain.template operator()<double>();
  CombineFn f = combine_function(Combine::Add, dtype);
  int64_t item = item_size(dtype);
  for (int64_t k = 0; k < n; ++k) f(out + k * out_stride * item, in + k * in_stride * item);
}

TensorRef as_index(const Call& c, const Tensor& t, const char* what) {
  if (t.dtype != DType::Int64 && t.dtype != DType::Int32)
    runtime_error(c.name(), ": Expected dtype int64 for ", what, ", got ", dtype_name(t.dtype));
  return to_dtype(t, DType::Int64);
}

TensorRef expanded(const Tensor& t, Dims shape, DType dtype) {
  if (t.dtype == dtype && t.contiguous() && std::ranges::equal(t.shape(), shape))
    return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef copy = empty(shape, dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

namespace {

constexpr int64_t kGrain = 1 << 14;

// --- gather and scatter ----------------------------------------------------------------------------------------------

// A 0-d tensor counts as one of shape [1].
int dims_of(const Tensor& t) { return std::max<int>(t.ndim, 1); }
int64_t size_at(const Tensor& t, int d) { return t.ndim ? t.sizes[d] : 1; }
int64_t stride_at(const Tensor& t, int d) { return t.ndim ? t.strides[d] : 1; }

void check_index_dtype(const Call& c, const Tensor& index) {
  if (index.dtype != DType::Int64 && index.dtype != DType::Int32 && index.numel > 0)
    runtime_error(c.name(), ": index must be int64, got ", dtype_name(index.dtype));
}

// index may be smaller than `t` in every dimension but `dim`.
void check_within(const Call& c, const Tensor& index, const Tensor& t, int64_t dim, const char* what, bool every) {
  if (dims_of(index) != dims_of(t))
    runtime_error(c.name(), ": index ", shape_text(index.shape()), " and ", what, " ", shape_text(t.shape()), " must "
                  "have equally many dimensions");
  for (int d = 0; d < dims_of(index); ++d)
    if ((every || d != dim) && size_at(index, d) > size_at(t, d))
      runtime_error(c.name(), ": index ", shape_text(index.shape()), " is larger than ", what, " ",
                    shape_text(t.shape()), " in dimension ", d,
                    every ? "" : concat("; it may be so only in dimension ", dim));
}

// Steps of `index`, of `data` (none along dim: the index says where), and of `other`.
Walk<3> index_walk(const Tensor& index, const Tensor& data, const Tensor& other, int64_t dim) {
  Walk<3> w;
  for (int d = 0; d < dims_of(index); ++d)
    w.add(size_at(index, d), {stride_at(index, d), d == dim ? 0 : stride_at(data, d), stride_at(other, d)});
  w.done();
  return w;
}

constexpr int64_t kBlock = 2048;

// Whether n numbers, `stride` apart, lie in [0, size): one outside sets the sign bit of itself or of size - 1 - itself.
bool all_within(const int64_t* at, int64_t n, int64_t stride, int64_t size) {
  uint64_t signs = 0, last = uint64_t(size) - 1;
  if (stride == 1) {
    for (int64_t k = 0; k < n; ++k) signs |= uint64_t(at[k]) | (last - uint64_t(at[k]));
  } else {
    for (int64_t k = 0; k < n; ++k) signs |= uint64_t(at[k * stride]) | (last - uint64_t(at[k * stride]));
  }
  return !(signs >> 63);
}
int64_t first_outside(const int64_t* at, int64_t n, int64_t stride, int64_t size) {
  for (int64_t k = 0; k < n; ++k)
    if (uint64_t(at[k * stride]) >= uint64_t(size)) return k;
  return 0;
}
// A private copy of `count` indices, so that nobody changes them between a check and their use.
void copy_indices(const int64_t* at, int64_t count, int64_t stride, int64_t* own) {
  if (stride == 1) std::memcpy(own, at, size_t(count) * sizeof(int64_t));
  else for (int64_t k = 0; k < count; ++k) own[k] = at[k * stride];
}
// The same of checked ones: those that another thread has put out of bounds since the check are 0.
void own_indices(const int64_t* at, int64_t count, int64_t size, int64_t* own) {
  copy_indices(at, count, 1, own);
  if (!all_within(own, count, 1, size))
    for (int64_t k = 0; k < count; ++k) own[k] = uint64_t(own[k]) < uint64_t(size) ? own[k] : 0;
}

void infer_gather(Call& c) {
  const Tensor &t = c.tensor(0), &index = c.tensor(2);
  int64_t d = c.dim(1, t.ndim);
  check_index_dtype(c, index);
  if (index.numel > 0) check_within(c, index, t, d, "input", false);
  c.output(index.shape(), t.dtype, t.device);
}
// long because: a block of indices is checked and used at once, while it is in the cache; each layout has its loop
void cpu_gather(Call& c) {
  const Tensor& t = c.tensor(0);
  Tensor& out = c.out();
  if (out.numel == 0) return;
  int64_t d = c.dim(1, t.ndim), size = size_at(t, int(d)), step = stride_at(t, int(d));
  TensorRef index = to_dtype(c.tensor(2), DType::Int64);
  Walk<3> w = index_walk(*index, t, out, d);
  int64_t n = w.length(), si = w.stride[0][w.ndim - 1], st = w.stride[1][w.ndim - 1], so = w.stride[2][w.ndim - 1];
  int64_t bad = 0;
  bool failed = false;
  std::mutex mutex;
  auto note = [&](const int64_t* at, int64_t count) __attribute__((noinline, cold)) {
    std::lock_guard guard(mutex);
    bad = at[first_outside(at, count, 1, size)], failed = true;
  };
  visit_size(out.itemsize(), [&]<class T>() {
    auto part = [&](const int64_t* offset, int64_t first, int64_t last) {
      int64_t own[kBlock];
      for (int64_t at_k = first; at_k < last; at_k += kBlock) {  // numbers are still in the cache when they are used
        int64_t count = std::min(kBlock, last - at_k);
        const int64_t* at = index->ptr<int64_t>() + offset[0] + at_k * si;
        const T* from = t.ptr<T>() + offset[1] + at_k * st;
        T* to = out.ptr<T>() + offset[2] + at_k * so;
        copy_indices(at, count, si, own);
        if (!all_within(own, count, 1, size)) return note(own, count);
        if (st == 0 && so == 1 && step == 1) {
          int64_t k = 0;
          for (; k + 8 <= count; k += 8) {  // eight reads, then eight writes: they overlap better
            T x[8];
            for (int j = 0; j < 8; ++j) x[j] = from[own[k + j]];
            for (int j = 0; j < 8; ++j) to[k + j] = x[j];
          }
          for (; k < count; ++k) to[k] = from[own[k]];
        } else if (so == 1) {
          for (int64_t k = 0; k < count; ++k) to[k] = from[own[k] * step + k * st];
        } else {
          for (int64_t k = 0; k < count; ++k) to[k * so] = from[own[k] * step + k * st];
        }
      }
    };
    LockRelease lock(out.numel);
    if (w.rows == 1) {
      const int64_t start[3] = {};
      parallel_for(n, kGrain, [&](int64_t a, int64_t b) { part(start, a, b); });
    } else {
      parallel_for(w.rows, std::max<int64_t>(1, kGrain / n), [&](int64_t a, int64_t b) {
        w.each_row(a, b, [&](const int64_t* offset) { part(offset, 0, n); });
      });
    }
  });
  if (failed) out_of_bounds(c, bad, d, size);
}

Combine combine_of(const Call& c, std::string_view reduce) {
  if (reduce == "sum" || reduce == "mean" || reduce == "add") return Combine::Add;
  if (reduce == "prod" || reduce == "multiply") return Combine::Multiply;
  if (reduce == "amax") return Combine::Max;
  if (reduce == "amin") return Combine::Min;
  runtime_error(c.name(), ": reduce must be sum, prod, mean, amax or amin (scatter: add, multiply), got ", reduce);
}

void check_indices(const Call& c, const Tensor& index, int64_t d, int64_t size) {  // contiguous int64
  const int64_t* at = index.ptr<int64_t>();
  std::atomic<bool> fine{true};
  parallel_for(index.numel, kGrain * 4, [&](int64_t a, int64_t b) {
    if (!all_within(at + a, b - a, 1, size)) fine = false;
  });
  if (!fine) out_of_bounds(c, at[first_outside(at, index.numel, 1, size)], d, size);
}

// part(rows [begin, end) of w, columns [first, last) of its rows) in pieces that never write to one place, as array 1
// of w (which does not move along the indexed dimension) tells: a place is written by one thread, in the order of w.
template <class F>
void each_apart(const Walk<3>& w, F part) {
  int64_t n = w.length();
  if (w.ndim > 1 && w.stride[1][0] != 0) {
    int64_t each = w.rows / w.size[0];
    parallel_for(w.size[0], std::max<int64_t>(1, kGrain / (each * n)),
                 [&](int64_t a, int64_t b) { part(a * each, b * each, 0, n); });
  } else if (w.stride[1][w.ndim - 1] != 0) {
    parallel_for(n, std::max<int64_t>(16, kGrain / w.rows), [&](int64_t a, int64_t b) { part(0, w.rows, a, b); });
  } else {
    part(0, w.rows, 0, n);
  }
}

// out[..., index, ...] (op)= source, in the order of memory of `index`: the same result for any number of threads.
void scatter(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d, Combine how) {
  int64_t size = size_at(out, int(d)), step = stride_at(out, int(d)), item = out.itemsize();
  check_indices(c, index, d, size);
  Walk<3> w = index_walk(index, out, source, d);
  if (w.rows == 0) return;
  int64_t si = w.stride[0][w.ndim - 1], so = w.stride[1][w.ndim - 1], ss = w.stride[2][w.ndim - 1];
  auto rows = [&]<class T>(auto one) {  // one(T& place, T value)
    LockRelease lock(index.numel * 4);
    each_apart(w, [&](int64_t begin, int64_t end, int64_t first, int64_t last) {
      int64_t n = last - first;
      w.each_row(begin, end, [&](const int64_t* offset) {
        const int64_t* at = index.ptr<int64_t>() + offset[0] + first * si;
        T* to = out.ptr<T>() + offset[1] + first * so;
        const T* from = source.ptr<T>() + offset[2] + first * ss;
        if (si == 1 && so == 0 && step == 1 && ss == 1) {
          for (int64_t k = 0; k < n; ++k) one(to[index_within(at + k, size)], from[k]);
        } else {
          for (int64_t k = 0; k < n; ++k) one(to[index_within(at + k * si, size) * step + k * so], from[k * ss]);
        }
      });
    });
  };
  auto sum = [](auto& place, auto value) { place = place + value; };
  if (how == Combine::Add && out.dtype == DType::Float32) return rows.template operator()<float>(sum);
  if (how == Combine::Add && out.dtype == DType::Float64) return rows.template operator()<double>(sum);
  if (how == Combine::Add && out.dtype == DType::Int64) return rows.template operator()<uint64_t>(sum);
  visit_size(item, [&]<class T>() {
    if (how == Combine::Replace) return rows.template operator()<T>([](T& place, T value) { place = value; });
    CombineFn f = combine_function(how, out.dtype);
    rows.template operator()<T>([f](T& place, const T& value) {
      f(reinterpret_cast<char*>(&place), reinterpret_cast<const char*>(&value));
    });
  });
}

void check_scatter(Call& c, const Tensor* source) {
  const Tensor &t = c.tensor(0), &index = c.tensor(2);
  int64_t d = c.dim(1, t.ndim);
  check_index_dtype(c, index);
  if (c.inplace) check_writable(c, t);
  if (index.numel == 0) return;
  check_within(c, index, t, d, "self", false);
  if (!source) return;
  check_within(c, index, *source, d, "src", true);
  if (source->dtype != t.dtype)
    runtime_error(c.name(), ": src must have the tensor's dtype ", dtype_name(t.dtype), ", got ",
                  dtype_name(source->dtype));
}
// (self, int dim, Tensor index, Tensor src[, str? reduce])
void infer_scatter(Call& c) {
  check_scatter(c, &c.tensor(3));
  output_self(c);
}
void run_scatter(Call& c, const Tensor& source, Combine how) {
  begin_with_self(c);
  if (c.tensor(2).numel == 0) return;
  TensorRef index = contiguous(*to_dtype(c.tensor(2), DType::Int64));
  TensorRef from = TensorRef::borrow(const_cast<Tensor*>(&source));
  if (source.storage == c.out().storage) {  // written while it is read
    from = empty(source.shape(), source.dtype);
    copy_into(*from, source);
  }
  scatter(c, c.out(), *index, *from, c.dim(1, c.out().ndim), how);
}
void cpu_scatter(Call& c) { run_scatter(c, c.tensor(3), c.has(4) ? combine_of(c, c.str(4)) : Combine::Replace); }
void cpu_scatter_add(Call& c) { run_scatter(c, c.tensor(3), Combine::Add); }

// (self, int dim, Tensor index, Scalar value[, str? reduce])
void infer_scatter_value(Call& c) {
  check_scatter(c, nullptr);
  output_self(c);
}
void cpu_scatter_value(Call& c) {
  TensorRef value = empty({}, c.out().dtype);
  fill(*value, c.scalar(3));
  std::vector<int64_t> zeros(c.tensor(2).ndim, 0);
  TensorRef source = view_of(*value, c.tensor(2).shape(), zeros, value->data);
  run_scatter(c, *source, c.has(4) ? combine_of(c, c.str(4)) : Combine::Replace);
}

// A mean: the sums divided by how many came to each place, self counted where it is included.
void divide_by_counts(const Call& c, Tensor& out, const Tensor& index, int64_t d, bool include) {
  TensorRef counts = empty(out.shape(), DType::Float64), one = empty({}, DType::Float64);
  fill(*counts, Scalar(include ? 1 : 0));
  fill(*one, Scalar(1));
  std::vector<int64_t> zeros(index.ndim, 0);
  TensorRef ones = view_of(*one, index.shape(), zeros, one->data);
  scatter(c, *counts, index, *ones, d, Combine::Add);
  TensorRef sums = empty(out.shape(), is_complex(out.dtype) ? DType::Complex128 : DType::Float64);
  copy_into(*sums, out);
  const double* n = counts->ptr<double>();
  bool integral = is_integral(out.dtype);
  if (is_complex(out.dtype)) {
    for (int64_t k = 0; k < sums->numel; ++k) sums->ptr<complex128>()[k] /= std::max(n[k], 1.0);
  } else {
    for (int64_t k = 0; k < sums->numel; ++k) {
      double& x = sums->ptr<double>()[k];
      x /= std::max(n[k], 1.0);
      if (integral) x = std::floor(x);
    }
  }
  copy_into(out, *sums);
}

// (self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self)
void cpu_scatter_reduce(Call& c) {
  std::string_view reduce = c.str(4);
  Combine how = combine_of(c, reduce);
  Tensor& out = c.out();
  begin_with_self(c);
  const Tensor& source = c.tensor(3);
  if (c.tensor(2).numel == 0) return;
  TensorRef index = contiguous(*to_dtype(c.tensor(2), DType::Int64));
  int64_t d = c.dim(1, out.ndim);
  bool include = c.boolean(5);
  if (!include) {  // places that something goes to start from the neutral element
    Scalar start = how == Combine::Add ? Scalar(0) : Scalar(1);
    TensorRef neutral = empty({}, out.dtype);
    if (how == Combine::Max || how == Combine::Min) {  // the source itself, written first
      scatter(c, out, *index, source, d, Combine::Replace);
    } else {
      fill(*neutral, start);
      std::vector<int64_t> zeros(index->ndim, 0);
      TensorRef places = view_of(*neutral, index->shape(), zeros, neutral->data);
      scatter(c, out, *index, *places, d, Combine::Replace);
    }
  }
  scatter(c, out, *index, source, d, how);
  if (reduce == "mean") divide_by_counts(c, out, *index, d, include);
}
void infer_scatter_reduce(Call& c) {
  combine_of(c, c.str(4));
  infer_scatter(c);
}

// --- whole slices by number ------------------------------------------------------------------------------------------

void check_index_vector(const Call& c, const Tensor& index) {
  if (index.ndim > 1) index_error(c.name(), "(): index must have at most 1 dimension, got shape ",
                                  shape_text(index.shape()));
  std::string_view name = c.name();
  bool fill = name.starts_with("index_fill"), narrow = !fill && name != "index_copy";
  if (index.dtype != DType::Int64 && !(narrow && index.dtype == DType::Int32))
    fail(fill ? ErrorKind::Index : ErrorKind::Runtime, name, "(): index must be ", narrow ? "int32 or int64" : "int64",
         ", got ", dtype_name(index.dtype));
}

// Negative numbers count from the end only where PyTorch lets them: nowhere here.
void infer_index_select(Call& c) {
  const Tensor &t = c.tensor(0), &index = c.tensor(2);
  int64_t d = c.dim(1, t.ndim);
  check_index_vector(c, index);
  if (t.ndim == 0) {
    if (index.numel != 1) index_error(c.name(), "(): the tensor has no dimensions, so there is one index, got ",
                                      index.numel);
    c.output({}, t.dtype, t.device);
    return;
  }
  Layout l(t);
  l.sizes[d] = index.numel;
  c.output(l.shape(), t.dtype, t.device);
}

// out[k] = table[index[k]] for rows of `bytes` bytes, `size` of them in the table; rows of common small sizes avoid
// calling memcpy.
void copy_rows(char* out, const char* table, const int64_t* index, int64_t n, int64_t size, int64_t bytes,
               int64_t pitch) {
  parallel_for(n, std::max<int64_t>(1, (kGrain * 8) / std::max<int64_t>(bytes, 16)), [&](int64_t a, int64_t b) {
    int64_t own[kBlock];
    for (; a < b; a += kBlock) {
      const int64_t count = std::min(kBlock, b - a);
      own_indices(index + a, count, size, own);
      char* to = out + a * bytes;
      auto fixed = [&]<int64_t N>() {
        for (int64_t k = 0; k < count; ++k) std::memcpy(to + k * N, table + own[k] * pitch, N);
      };
      switch (bytes) {
        case 4: fixed.template operator()<4>(); break;
        case 8: fixed.template operator()<8>(); break;
        case 16: fixed.template operator()<16>(); break;
        case 32: fixed.template operator()<32>(); break;
        case 64: fixed.template operator()<64>(); break;
        default: for (int64_t k = 0; k < count; ++k) std::memcpy(to + k * bytes, table + own[k] * pitch, bytes);
      }
    }
  });
}

// Whether the part of t after dimension d is one run of memory.
bool packed_after(const Tensor& t, int64_t d) {
  int64_t step = 1;
  for (int k = t.ndim - 1; k > d; --k) {
    if (t.sizes[k] != 1 && t.strides[k] != step) return false;
    step *= t.sizes[k];
  }
  return true;
}

// What is selected are runs of memory, or columns of a matrix.
// long because: three ways through the same runs, chosen by how many there are
void select_packed(const Tensor& t, const Tensor& index, Tensor& out, int64_t d) {
  int64_t n = index.numel, size = size_at(t, int(d)), step = stride_at(t, int(d)), item = t.itemsize();
  const int64_t* at = index.ptr<int64_t>();
  int64_t inner = 1;
  for (int k = int(d) + 1; k < t.ndim; ++k) inner *= t.sizes[k];
  Walk<2> outer;
  int64_t place = inner * n;
  std::vector<int64_t> places(d);
  for (int k = int(d) - 1; k >= 0; --k) places[k] = place, place *= t.sizes[k];
  for (int k = 0; k < d; ++k) outer.add(t.sizes[k], {t.strides[k], places[k]});
  outer.add(1, {0, 0});
  outer.done();
  int64_t run = outer.length(), from = outer.stride[0][outer.ndim - 1], to = outer.stride[1][outer.ndim - 1];
  LockRelease lock(out.numel);
  if (inner == 1 && outer.rows == 1 && run > 1) {  // columns of a matrix: each index is used `run` times
    auto memory = std::make_unique_for_overwrite<int64_t[]>(size_t(n));
    int64_t* own = memory.get();
    own_indices(at, n, size, own);
    visit_size(item, [&]<class T>() {
      parallel_for(run, std::max<int64_t>(1, kGrain / n), [&](int64_t a, int64_t b) {
        for (int64_t r = a; r < b; ++r) {
          const T* x = t.ptr<T>() + r * from;
          T* y = out.ptr<T>() + r * to;
          if (step == 1) {
            for (int64_t k = 0; k < n; ++k) y[k] = x[own[k]];
          } else {
            for (int64_t k = 0; k < n; ++k) y[k] = x[own[k] * step];
          }
        }
      });
    });
    return;
  }
  if (outer.rows == 1 && run >= num_threads()) {  // inside a piece copy_rows stays on its thread
    parallel_for(run, std::max<int64_t>(1, kGrain / (inner * n)), [&](int64_t a, int64_t b) {
      for (int64_t k = a; k < b; ++k)
        copy_rows(out.data + k * to * item, t.data + k * from * item, at, n, size, inner * item, step * item);
    });
    return;
  }
  outer.each_row(0, outer.rows, [&](const int64_t* offset) {
    for (int64_t k = 0; k < run; ++k)
      copy_rows(out.data + (offset[1] + k * to) * item, t.data + (offset[0] + k * from) * item, at, n, size,
                inner * item, step * item);
  });
}

void select_strided(const Tensor& t, const Tensor& index, Tensor& out, int64_t d) {
  int64_t n = index.numel, size = size_at(t, int(d)), step = stride_at(t, int(d)), item = t.itemsize();
  const int64_t* at = index.ptr<int64_t>();
  Walk<2> w;  // one slice
  for (int k = 0; k < t.ndim; ++k)
    if (k != d) w.add(t.sizes[k], {t.strides[k], out.strides[k]});
  w.done();
  int64_t run = w.length(), from = w.stride[0][w.ndim - 1], to = w.stride[1][w.ndim - 1];
  visit_size(item, [&]<class T>() {
    LockRelease lock(out.numel);
    parallel_for(n, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, out.numel / n)), [&](int64_t a, int64_t b) {
      for (int64_t k = a; k < b; ++k) {
        const int64_t place = index_within(at + k, size) * step;
        w.each_row(0, w.rows, [&](const int64_t* offset) {
          const T* x = t.ptr<T>() + place + offset[0];
          T* y = out.ptr<T>() + k * out.strides[d] + offset[1];
          for (int64_t j = 0; j < run; ++j) y[j * to] = x[j * from];
        });
      }
    });
  });
}

void select_rows(const Call& c, const Tensor& t, const Tensor& index, Tensor& out, int64_t d) {
  check_indices(c, index, d, size_at(t, int(d)));
  if (out.numel == 0) return;
  if (packed_after(t, d)) select_packed(t, index, out, d);
  else select_strided(t, index, out, d);
}

TensorRef index_vector(const Tensor& t) { return contiguous(*to_dtype(t, DType::Int64)); }

void cpu_index_select(Call& c) {
  const Tensor& t = c.tensor(0);
  select_rows(c, t, *index_vector(c.tensor(2)), c.out(), c.dim(1, t.ndim));
}

// index_add, index_copy (self, int dim, Tensor index, Tensor source[, *, Scalar alpha])
void infer_index_source(Call& c) {
  const Tensor &t = c.tensor(0), &index = c.tensor(2), &source = c.tensor(3);
  int64_t d = c.dim(1, t.ndim);
  check_index_vector(c, index);
  if (source.dtype != t.dtype)
    runtime_error(c.name(), "(): source must have the tensor's dtype ", dtype_name(t.dtype), ", got ",
                  dtype_name(source.dtype));
  const ErrorKind kind = std::string_view(c.name()) == "index_add" ? ErrorKind::Runtime : ErrorKind::Index;
  if (source.ndim != t.ndim && !(source.ndim == 0 && index.numel <= 1 && t.ndim <= 1))
    fail(kind, c.name(), "(): source ", shape_text(source.shape()), " and the tensor ", shape_text(t.shape()), " must "
         "have equally many dimensions");
  if (size_at(source, source.ndim ? int(d) : 0) != index.numel)
    runtime_error(c.name(), "(): source holds ", size_at(source, source.ndim ? int(d) : 0), " slices along dim ", d,
                  " for ", index.numel, " indices");
  for (int k = 0; k < source.ndim; ++k)
    if (k != d && source.sizes[k] != t.sizes[k])
      fail(kind, c.name(), "(): source ", shape_text(source.shape()), " and the tensor ", shape_text(t.shape()), " may "
           "differ only in dimension ", d);
  if (c.inplace) check_writable(c, t);
  output_self(c);
}

// f(out, out_stride, source, source_stride, n) for each row of each indexed slice, in the order of the indices.
template <class F>
void each_slice(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d, F f) {
  const int64_t size = size_at(out, int(d));
  check_indices(c, index, d, size);
  Walk<2> w;
  for (int k = 0; k < out.ndim; ++k)
    if (k != d) w.add(out.sizes[k], {out.strides[k], source.strides[k]});
  w.done();
  int64_t item = out.itemsize(), run = w.length(), to = w.stride[0][w.ndim - 1], from = w.stride[1][w.ndim - 1];
  int64_t out_step = stride_at(out, int(d)), source_step = source.ndim ? source.strides[d] : 1;
  const int64_t* at = index.ptr<int64_t>();
  LockRelease lock(source.numel);
  for (int64_t k = 0; k < index.numel; ++k) {
    const int64_t place = index_within(at + k, size) * out_step;
    w.each_row(0, w.rows, [&](const int64_t* offset) {
      f(out.data + (place + offset[0]) * item, to, source.data + (k * source_step + offset[1]) * item, from, run);
    });
  }
}

TensorRef apart(const Tensor& source, const Tensor& out) {
  if (source.storage != out.storage) return TensorRef::borrow(const_cast<Tensor*>(&source));
  TensorRef copy = empty(source.shape(), source.dtype);
  copy_into(*copy, source);
  return copy;
}

void cpu_index_add(Call& c) {
  Tensor& out = c.out();
  begin_with_self(c);
  TensorRef source = apart(c.tensor(3), out), index = index_vector(c.tensor(2));
  Scalar alpha = c.scalar(4);
  if (alpha.category == Category::Complex || (alpha.integral() ? alpha.i != 1 : alpha.re != 1)) {
    TensorRef scaled = empty(source->shape(), out.dtype), factor = empty({}, out.dtype);
    copy_into(*scaled, *source);
    fill(*factor, alpha);
    CombineFn f = combine_function(Combine::Multiply, out.dtype);
    for (int64_t k = 0; k < scaled->numel; ++k) f(scaled->data + k * out.itemsize(), factor->data);
    source = scaled;
  }
  DType dtype = out.dtype;
  each_slice(c, out, *index, *source, c.dim(1, out.ndim),
             [dtype](char* a, int64_t sa, const char* b, int64_t sb, int64_t n) { add_run(dtype, a, sa, b, sb, n); });
}
void cpu_index_copy(Call& c) {
  Tensor& out = c.out();
  begin_with_self(c);
  TensorRef source = apart(c.tensor(3), out), index = index_vector(c.tensor(2));
  visit_size(out.itemsize(), [&]<class T>() {
    each_slice(c, out, *index, *source, c.dim(1, out.ndim),
               [](char* a, int64_t sa, const char* b, int64_t sb, int64_t n) {
                 for (int64_t k = 0; k < n; ++k)
                   reinterpret_cast<T*>(a)[k * sa] = reinterpret_cast<const T*>(b)[k * sb];
               });
  });
}
// index_fill_number(self, int dim, Tensor index, Scalar value); …_tensor has a 0-d Tensor value
void infer_index_fill(Call& c) {
  const Tensor& t = c.tensor(0);
  c.dim(1, t.ndim);
  check_index_vector(c, c.tensor(2));
  if (c.args[3].tag == Tag::Tensor && c.tensor(3).ndim != 0)
    runtime_error(c.name(), ": the value must be a number or a tensor without dimensions, got ", int(c.tensor(3).ndim),
                  " dimensions");
  if (c.inplace) check_writable(c, t);
  output_self(c);
}
void cpu_index_fill(Call& c) {
  Tensor& out = c.out();
  begin_with_self(c);
  int64_t d = c.dim(1, out.ndim), size = size_at(out, int(d));
  TensorRef index = index_vector(c.tensor(2)), wrapped = empty(index->shape(), DType::Int64),
            value = empty({}, out.dtype);
  for (int64_t k = 0; k < index->numel; ++k) {
    int64_t at = __atomic_load_n(index->ptr<int64_t>() + k, __ATOMIC_RELAXED);
    if (at < -size || at >= size) out_of_bounds(c, at, d, size);
    wrapped->ptr<int64_t>()[k] = at < 0 ? at + size : at;
  }
  if (c.args[3].tag == Tag::Tensor) copy_into(*value, c.tensor(3));
  else fill(*value, c.scalar(3));
  Layout l(out);
  l.data = value->data;
  std::fill(l.strides, l.strides + l.ndim, 0);
  if (l.ndim) l.sizes[d] = index->numel;
  TensorRef source = l.of(*value);
  visit_size(out.itemsize(), [&]<class T>() {
    each_slice(c, out, *wrapped, *source, d, [](char* a, int64_t sa, const char* b, int64_t, int64_t n) {
      for (int64_t k = 0; k < n; ++k) reinterpret_cast<T*>(a)[k * sa] = *reinterpret_cast<const T*>(b);
    });
  });
}

// --- embedding -------------------------------------------------------------------------------------------------------

// embedding_rows(Tensor weight, Tensor indices, int padding_idx, bool scale_grad_by_freq)
void infer_embedding(Call& c) {
  const Tensor &weight = c.tensor(0), &index = c.tensor(1);
  if (weight.ndim != 2) runtime_error("embedding: weight must have 2 dimensions (num_embeddings, embedding_dim), got "
                                      "shape ", shape_text(weight.shape()));
  if (index.dtype != DType::Int64 && index.dtype != DType::Int32)
    runtime_error("embedding: indices must be int64 or int32, got ", dtype_name(index.dtype));
  Layout l(index);
  l.push(weight.sizes[1], 1);
  c.output(l.shape(), weight.dtype, weight.device);
}
void cpu_embedding(Call& c) {
  const Tensor& weight = c.tensor(0);
  TensorRef index = index_vector(c.tensor(1));
  int64_t shape[2] = {index->numel, weight.sizes[1]};
  TensorRef out = view_of(c.out(), shape, contiguous_strides(shape), c.out().data);
  select_rows(c, weight, *index, *out, 0);
}

// (Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq)
void infer_embedding_backward(Call& c) {
  const Tensor &g = c.tensor(0), &index = c.tensor(1);
  if (index.dtype != DType::Int64 && index.dtype != DType::Int32)
    runtime_error(c.name(), ": Expected dtype int64 for indices, got ", dtype_name(index.dtype));
  if (g.ndim != index.ndim + 1 || !std::equal(index.sizes, index.sizes + index.ndim, g.sizes))
    runtime_error(c.name(), ": expected a gradient of the indices' shape and one more dimension, got ",
                  shape_text(g.shape()), " for ", shape_text(index.shape()));
  if (c.boolean(4) && !is_floating(g.dtype))
    runtime_error(c.name(), ": scale_grad_by_freq needs a floating-point gradient, got ", dtype_name(g.dtype));
  int64_t shape[2] = {c.integer(2), g.sizes[g.ndim - 1]};
  check_size(c, shape);
  c.output(shape, g.dtype, g.device);
}
// long because: one sum over places; its order must not depend on threads, nor on whether it is a mean
void cpu_embedding_backward(Call& c) {
  Tensor& out = c.out();
  fill(out, Scalar(0));
  TensorRef g = contiguous(c.tensor(0)), index = index_vector(c.tensor(1));
  int64_t rows = out.sizes[0], width = out.sizes[1], padding = c.integer(3), n = index->numel, item = out.itemsize();
  const int64_t* at = index->ptr<int64_t>();
  check_indices(c, *index, 0, rows);
  bool wide = is_half(out.dtype);  // sums of halves are kept in float32
  TensorRef sums, from = g;
  if (wide) {
    sums = empty(out.shape(), DType::Float32);
    fill(*sums, Scalar(0));
    from = to_dtype(*g, DType::Float32);
    item = 4;
  }
  Tensor& to = wide ? *sums : out;
  std::vector<int64_t> seen;
  if (c.boolean(4)) {
    seen.assign(rows, 0);
    for (int64_t k = 0; k < n; ++k) ++seen[index_within(at + k, rows)];
  }
  {
    LockRelease lock(n * width);
    // every thread owns a range of columns' worth of rows: additions to one row keep their order
    parallel_for(rows, std::max<int64_t>(1, n * width < (1 << 17) ? rows : rows / 8), [&](int64_t first, int64_t last) {
      for (int64_t k = 0; k < n; ++k) {
        const int64_t r = index_within(at + k, rows);
        if (r < first || r >= last || r == padding) continue;
        char* row = to.data + r * width * item;
        const char* add = from->data + k * width * item;
        if (seen.empty()) {
          add_run(to.dtype, row, 1, add, 1, width);
        } else if (to.dtype == DType::Float64) {
          for (int64_t j = 0; j < width; ++j)
            reinterpret_cast<double*>(row)[j] += reinterpret_cast<const double*>(add)[j] / double(seen[r]);
        } else {
          for (int64_t j = 0; j < width; ++j)
            reinterpret_cast<float*>(row)[j] += reinterpret_cast<const float*>(add)[j] / float(seen[r]);
        }
      }
    });
  }
  if (wide) copy_into(out, *sums);
}

// embedding_renorm_(Tensor self, Tensor indices, float max_norm, float norm_type): rows that are used and too long
// shrink
void infer_renorm(Call& c) {
  if (c.tensor(0).ndim != 2 || !is_floating(c.tensor(0).dtype))
    runtime_error(c.name(), ": expected a 2-D floating-point weight");
  write_self(c);
}
void cpu_renorm(Call& c) {
  Tensor& out = c.out();
  TensorRef index = index_vector(c.tensor(1)), table = empty(out.shape(), DType::Float64);
  copy_into(*table, out);
  check_indices(c, *index, 0, out.sizes[0]);
  double most = c.real(2), p = c.real(3);
  int64_t width = out.sizes[1];
  std::vector<bool> done(out.sizes[0]);
  for (int64_t k = 0; k < index->numel; ++k) {
    int64_t r = index_within(index->ptr<int64_t>() + k, out.sizes[0]);
    if (done[r]) continue;
    done[r] = true;
    double* row = table->ptr<double>() + r * width;
    double norm = 0;
    for (int64_t j = 0; j < width; ++j) {
      double a = std::fabs(row[j]);
      norm = std::isinf(p) ? std::max(norm, a) : norm + (p == 0 ? a != 0 : std::pow(a, p));
    }
    if (!std::isinf(p) && p != 0) norm = std::pow(norm, 1 / p);
    if (norm <= most) continue;
    double scale = most / (norm + 1e-7);
    for (int64_t j = 0; j < width; ++j) row[j] *= scale;
  }
  copy_into(out, *table);
}

// one_hot(Tensor self, int num_classes): -1 takes the largest value + 1
void infer_one_hot(Call& c) {
  const Tensor& t = c.tensor(0);
  int64_t classes = c.integer_or(1, -1);
  if (t.dtype != DType::Int64) runtime_error(c.name(), ": classes must be int64, got ", dtype_name(t.dtype));
  if (classes < -1 || classes == 0) runtime_error(c.name(), ": num_classes should be positive, got ", classes);
  if (classes == -1) {
    if (t.is_meta()) not_implemented(c.name(), ": on the meta device num_classes must be given");
    if (t.numel == 0) runtime_error(c.name(), ": an empty tensor does not say how many classes there are; pass "
                                    "num_classes");
    TensorRef flat = contiguous(t);
    classes = *std::max_element(flat->ptr<int64_t>(), flat->ptr<int64_t>() + t.numel) + 1;
  }
  Layout l(t);
  l.push(std::max<int64_t>(classes, 0), 1);
  c.output(l.shape(), DType::Int64, t.device);
}
void cpu_one_hot(Call& c) {
  Tensor& out = c.out();
  fill(out, Scalar(0));
  TensorRef index = contiguous(c.tensor(0));
  int64_t classes = out.sizes[out.ndim - 1];
  for (int64_t k = 0; k < index->numel; ++k) {
    int64_t at = __atomic_load_n(index->ptr<int64_t>() + k, __ATOMIC_RELAXED);
    if (at < 0) runtime_error(c.name(), ": class numbers must not be negative, got ", at);
    if (at >= classes) runtime_error(c.name(), ": class ", at, " is not below num_classes=", classes);
    out.ptr<int64_t>()[k * classes + at] = 1;
  }
}

const Primitives rows{
    {"gather", infer_gather, cpu_gather},
    {"scatter_src", infer_scatter, cpu_scatter},
    {"scatter_value", infer_scatter_value, cpu_scatter_value},
    {"scatter_add", infer_scatter, cpu_scatter_add},
    {"scatter_reduce", infer_scatter_reduce, cpu_scatter_reduce},
    {"index_select", infer_index_select, cpu_index_select},
    {"index_add", infer_index_source, cpu_index_add},
    {"index_copy", infer_index_source, cpu_index_copy},
    {"index_fill_number", infer_index_fill, cpu_index_fill},
    {"index_fill_tensor", infer_index_fill, cpu_index_fill},
    {"embedding_rows", infer_embedding, cpu_embedding},
    {"embedding_dense_backward", infer_embedding_backward, cpu_embedding_backward},
    {"embedding_renorm_", infer_renorm, cpu_renorm},
    {"one_hot", infer_one_hot, cpu_one_hot, Infer::ReadsValues},
};

}  // namespace
}  // namespace flambeau

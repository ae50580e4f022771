// gather and scatter: elements along one dimension, each picked or placed by an index of its own.
#include <atomic>
#include <cmath>
#include <mutex>
#include <unordered_map>

#include "combine.h"
#include "indices.h"
#include "options.h"
#include "steady.h"
#include "views.h"
#include "walk.h"

namespace flambeau::indices {
namespace {

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

void infer_gather(Call& c) {
  const Tensor &t = c.tensor(0), &index = c.tensor(2);
  int64_t d = c.dim(1, t.ndim);
  check_index_dtype(c, index);
  if (index.numel > 0) check_within(c, index, t, d, "input", false);
  c.output(index.shape(), t.dtype, t.device);
}
// to[k] = from[own[k]] for a block of checked indices, with the steps that data and result have beside it.
template <class T>
void pick(const int64_t* own, int64_t count, const T* from, int64_t step, int64_t st, T* to, int64_t so) {
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
        if (!copy_within(at, count, si, size, own)) return note(own, count);
        pick(own, count, from, step, st, to, so);
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

}  // namespace

void check_indices(const Call& c, const Tensor& index, int64_t d, int64_t size) {  // contiguous int64
  const int64_t* at = index.ptr<int64_t>();
  std::atomic<bool> fine{true};
  parallel_for(index.numel, kGrain * 4, [&](int64_t a, int64_t b) {
    if (!all_within(at + a, b - a, 1, size)) fine = false;
  });
  if (!fine) out_of_bounds(c, at[first_outside(at, index.numel, 1, size)], d, size);
}

namespace {

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

// NaN wins. One instruction chooses the larger number, or the place's own NaN: a branch would be foretold wrongly half
// of the time, one for a NaN that comes hardly ever.
constexpr auto kMost = [](auto& place, auto value) {
  if (__builtin_expect(value != value, 0)) place = value;
  else place = value > place ? value : place;
};
constexpr auto kLeast = [](auto& place, auto value) {
  if (__builtin_expect(value != value, 0)) place = value;
  else place = value < place ? value : place;
};
constexpr auto kTimes = []<class T>(T& place, T value) {
  if constexpr (std::is_integral_v<T>) place = T(uint64_t(place) * uint64_t(value));
  else place = place * value;
};
constexpr auto kPlus = []<class T>(T& place, T value) {
  if constexpr (std::is_integral_v<T>) place = T(uint64_t(place) + uint64_t(value));
  else place = place + value;
};

// f(combine) with what the processor does: combine(T& place, T value). False: it does not.
template <class F>
bool with_combine(Combine how, F&& f) {
  switch (how) {
    case Combine::Add: return f(kPlus), true;
    case Combine::Multiply: return f(kTimes), true;
    case Combine::Max: return f(kMost), true;
    case Combine::Min: return f(kLeast), true;
    default: return false;
  }
}

void scatter(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d, Combine how);

// What comes to a place of halves is combined in float32 and rounded once.
void scatter_halves(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d, Combine how) {
  constexpr int64_t kFew = 256;  // a place for so many others: widening all of them takes longer
  TensorRef from = to_dtype(source, DType::Float32);
  if (index.numel >= out.numel / kFew) {
    TensorRef sums = to_dtype(out, DType::Float32);
    scatter(c, *sums, index, *from, d, how);
    return copy_into(out, *sums);
  }
  const int64_t size = size_at(out, int(d)), step = stride_at(out, int(d));
  check_indices(c, index, d, size);
  Walk<3> w = index_walk(index, out, *from, d);
  const int64_t n = w.length(), last = w.ndim - 1;
  auto all = [&]<class H>(auto one) {
    std::unordered_map<H*, float> sums;
    w.each_row(0, w.rows, [&](const int64_t* offset) {
      auto at = [&](int array, int64_t k) { return offset[array] + k * w.stride[array][last]; };
      for (int64_t k = 0; k < n; ++k) {
        H* place = out.ptr<H>() + at(1, k) + index_within(index.ptr<int64_t>() + at(0, k), size) * step;
        one(sums.try_emplace(place, float(*place)).first->second, from->ptr<float>()[at(2, k)]);
      }
    });
    for (const auto& [place, sum] : sums) *place = H(sum);
  };
  with_combine(how, [&](auto one) {
    out.dtype == DType::Float16 ? all.template operator()<float16>(one) : all.template operator()<bfloat16>(one);
  });
}

// out[..., index, ...] (op)= source, in the order of memory of `index`: the same result for any number of threads.
void scatter(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d, Combine how) {
  if (is_half(out.dtype) && how != Combine::Replace) return scatter_halves(c, out, index, source, d, how);
  const int64_t size = size_at(out, int(d)), step = stride_at(out, int(d));
  check_indices(c, index, d, size);
  Walk<3> w = index_walk(index, out, source, d);
  if (w.rows == 0) return;
  int64_t si = w.stride[0][w.ndim - 1], so = w.stride[1][w.ndim - 1], ss = w.stride[2][w.ndim - 1];
  auto rows = [&]<class T>(auto one) {  // one(T& place, T value)
    LockRelease lock(index.numel * 4);
    each_apart(w, [&](int64_t begin, int64_t end, int64_t first, int64_t last) {
      const int64_t n = last - first;
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
  const auto by_processor = [&]<class T>() {
    constexpr bool complex = std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;
    if constexpr (complex) return how == Combine::Add && (rows.template operator()<T>(kPlus), true);
    else if constexpr (!std::is_arithmetic_v<T> || std::is_same_v<T, bool>) return false;
    else return with_combine(how, [&](auto one) { rows.template operator()<T>(one); });
  };
  if (how != Combine::Replace && visit_dtype(out.dtype, by_processor)) return;
  visit_size(out.itemsize(), [&]<class T>() {
    if (how == Combine::Replace) return rows.template operator()<T>([](T& place, T value) { place = value; });
    rows.template operator()<T>([f = combine_function(how, out.dtype)](T& place, const T& value) {
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

const Primitives rows{
    {"gather", infer_gather, cpu_gather},
    {"scatter_src", infer_scatter, cpu_scatter},
    {"scatter_value", infer_scatter_value, cpu_scatter_value},
    {"scatter_add", infer_scatter, cpu_scatter_add},
    {"scatter_reduce", infer_scatter_reduce, cpu_scatter_reduce},
};

}  // namespace
}  // namespace flambeau::indices

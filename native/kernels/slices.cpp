// Whole slices by number: index_select, index_add, index_copy, index_fill.
#include <bit>
#include <memory>

#include "combine.h"
#include "indices.h"
#include "options.h"
#include "radix.h"
#include "steady.h"
#include "strided.h"
#include "vector.h"
#include "views.h"
#include "walk.h"

namespace flambeau::indices {
namespace {

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

// Columns of a matrix of `rows` rows, `from` and `to` apart in t and out: each index is used by every row.
void select_columns(const Tensor& t, const int64_t* at, int64_t n, int64_t size, int64_t step, Tensor& out,
                    int64_t rows, int64_t from, int64_t to) {
  auto memory = std::make_unique_for_overwrite<int64_t[]>(size_t(n));
  int64_t* own = memory.get();
  own_indices(at, n, size, own);
  visit_size(t.itemsize(), [&]<class T>() {
    parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t a, int64_t b) {
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
}

// What is selected are runs of memory, or columns of a matrix.
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
  if (inner == 1 && outer.rows == 1 && run > 1) return select_columns(t, at, n, size, step, out, run, from, to);
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

}  // namespace

void select_rows(const Call& c, const Tensor& t, const Tensor& index, Tensor& out, int64_t d) {
  check_indices(c, index, d, size_at(t, int(d)));
  if (out.numel == 0) return;
  if (packed_after(t, d)) select_packed(t, index, out, d);
  else select_strided(t, index, out, d);
}

namespace {

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
  const bool alone = index.numel <= 1 && source.ndim + t.ndim == 1 &&  // one number, with and without a dimension
                     (source.ndim == 0 || kind == ErrorKind::Index);
  if (source.ndim != t.ndim && !alone)
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

constexpr int64_t kManySlices = 64;  // that threads share rather than parts of each

// f(out, out_stride, source, source_stride, n) for each row of each indexed slice, in the order of the indices: what is
// indexed twice is written twice. Threads share the rows, many slices, or parts of long rows.
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
  auto part = [&](int64_t row, int64_t end, int64_t begin, int64_t count, int64_t low, int64_t high) {
    for (int64_t k = 0; k < index.numel; ++k) {
      const int64_t slice = index_within(at + k, size);
      if (slice < low || slice >= high) continue;
      const int64_t place = slice * out_step + begin * to, start = k * source_step + begin * from;
      w.each_row(row, end, [&](const int64_t* offset) {
        f(out.data + (place + offset[0]) * item, to, source.data + (start + offset[1]) * item, from, count);
      });
    }
  };
  if (may_overlap(out) || index.numel == 0) return part(0, w.rows, 0, run, 0, size);
  const int64_t each = std::max<int64_t>(1, kGrain / index.numel);
  if (w.rows >= num_threads())
    return parallel_for(w.rows, std::max<int64_t>(1, each / std::max<int64_t>(run, 1)),
                        [&](int64_t a, int64_t b) { part(a, b, 0, run, 0, size); });
  if (size >= kManySlices) {  // each thread those that it has just copied, as begin_with_self shares them out
    const int64_t work = std::max<int64_t>(1, index.numel * run / size);
    return parallel_for(size, std::max<int64_t>(1, kGrain / work),
                        [&](int64_t a, int64_t b) { part(0, w.rows, 0, run, a, b); });
  }
  parallel_for(run, std::max<int64_t>(256, each),
               [&](int64_t a, int64_t b) { part(0, w.rows, a, b - a, 0, size); });
}

TensorRef apart(const Tensor& source, const Tensor& out) {
  if (source.storage != out.storage) return TensorRef::borrow(const_cast<Tensor*>(&source));
  TensorRef copy = empty(source.shape(), source.dtype);
  copy_into(*copy, source);
  return copy;
}

bool are_columns(const Tensor& out, const Tensor& index, const Tensor& source, int64_t d) {
  return index.numel && d == out.ndim - 1 && out.numel >= 2 * size_at(out, int(d)) && out.contiguous() &&
         source.contiguous();
}
// Columns of dense matrices: row by row, f(out, source) for each index in turn. False: these are no such columns.
template <class T, class F>
bool each_column(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d, F f) {
  const int64_t n = index.numel, size = size_at(out, int(d));
  if (!are_columns(out, index, source, d)) return false;
  check_indices(c, index, d, size);
  auto own = std::make_unique_for_overwrite<int64_t[]>(size_t(n));
  own_indices(index.ptr<int64_t>(), n, size, own.get());
  LockRelease lock(source.numel);
  parallel_for(out.numel / size, std::max<int64_t>(1, kGrain / n), [&](int64_t r, int64_t end) {
    for (; r < end; ++r) {
      const T* x = source.ptr<T>() + r * n;
      T* y = out.ptr<T>() + r * size;
      for (int64_t k = 0; k < n; ++k) f(y[own[k]], x[k]);
    }
  });
  return true;
}

void add_slices(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d) {
  const DType dtype = out.dtype;
  const bool done = visit_dtype(dtype, [&]<class T>() {
    auto add = [](auto& to, auto v) { to += v; };
    constexpr bool half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
    if constexpr (half || std::is_same_v<T, bool>) return false;
    else if constexpr (!std::is_integral_v<T>) return each_column<T>(c, out, index, source, d, add);
    else return each_column<std::make_unsigned_t<T>>(c, out, index, source, d, add);
  });
  if (done) return;
  each_slice(c, out, index, source, d,
             [dtype](char* a, int64_t sa, const char* b, int64_t sb, int64_t n) { add_run(dtype, a, sa, b, sb, n); });
}
void copy_slices(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d) {
  visit_size(out.itemsize(), [&]<class T>() {
    if (each_column<T>(c, out, index, source, d, [](T& to, T v) { to = v; })) return;
    each_slice(c, out, index, source, d, [](char* a, int64_t sa, const char* b, int64_t sb, int64_t n) {
      move_run<T>(a, sa * int64_t(sizeof(T)), b, sb * int64_t(sizeof(T)), n);
    });
  });
}

// The places in `index` of each slice that it names, slice by slice and in order, and where each slice's begin.
struct Grouped {
  struct Entry {
    int64_t slice, place;
  };
  std::vector<Entry> entries;
  std::vector<int64_t> begins;
  Grouped(const Tensor& index, int64_t size) : entries(size_t(index.numel)) {
    const int64_t n = index.numel;
    std::vector<Entry> spare(entries.size());
    for (int64_t k = 0; k < n; ++k) entries[size_t(k)] = {index_within(index.ptr<int64_t>() + k, size), k};
    if (n) radix_sort(entries.data(), spare.data(), n, (std::bit_width(uint64_t(size)) + 7) / 8,
                      [](const Entry& e) { return uint64_t(e.slice); });
    for (int64_t k = 0; k < n; ++k)
      if (k == 0 || entries[size_t(k)].slice != entries[size_t(k - 1)].slice) begins.push_back(k);
    begins.push_back(n);
  }
};

// Sums of halves are kept in float32 and rounded once: those of all slices, where these are small and many,
constexpr int64_t kSmallSlice = 64, kFewSlices = 16;  // elements; one of so many
// else part by part of a slice, all that is added to it.
void add_halves(const Call& c, Tensor& out, const Tensor& index, const Tensor& source, int64_t d) {
  constexpr int64_t kPart = 1024;
  const int64_t size = size_at(out, int(d)), item = out.itemsize();
  check_indices(c, index, d, size);
  Walk<2> w;
  for (int k = 0; k < out.ndim; ++k)
    if (k != d) w.add(out.sizes[k], {out.strides[k], source.strides[k]});
  w.done();
  const int64_t run = w.length(), to = w.stride[0][w.ndim - 1], from = w.stride[1][w.ndim - 1];
  const int64_t parts = (run + kPart - 1) / kPart;
  const LoadFn<float> load = loader_of<float>(out.dtype);
  LockRelease lock(source.numel);
  const Grouped grouped(index, size);
  auto add_to = [&](int64_t group, int64_t begin, const int64_t* offset) {
    float sum[kPart], some[kPart];
    const int64_t n = std::min(kPart, run - begin), first = grouped.begins[size_t(group)];
    const int64_t place = grouped.entries[size_t(first)].slice * stride_at(out, int(d)) + begin * to + offset[0];
    load(sum, out.data + place * item, to * item, n);
    for (int64_t k = first; k < grouped.begins[size_t(group) + 1]; ++k) {
      const int64_t start = grouped.entries[size_t(k)].place * stride_at(source, int(d)) + begin * from + offset[1];
      load(some, source.data + start * item, from * item, n);
      for (int64_t j = 0; j < n; ++j) sum[j] += some[j];
    }
    if (to == 1) return store_row(out.data + place * item, out.dtype, sum, n);
    for (int64_t j = 0; j < n; ++j) put<float>(out.data, out.dtype, place + j * to, sum[j]);
  };
  const int64_t units = (int64_t(grouped.begins.size()) - 1) * parts, work = source.numel / std::max<int64_t>(1, units);
  parallel_for(units, may_overlap(out) ? units : std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
               [&](int64_t u, int64_t end) {
                 for (; u < end; ++u)
                   w.each_row(0, w.rows, [&](const int64_t* at) { add_to(u / parts, u % parts * kPart, at); });
               });
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
  const int64_t d = c.dim(1, out.ndim);
  if (!is_half(out.dtype) || !out.ndim || !out.numel) return add_slices(c, out, *index, *source, d);
  const int64_t size = size_at(out, int(d));
  const bool small = out.numel / size < kSmallSlice && index->numel >= size / kFewSlices;
  if (!small && !are_columns(out, *index, *source, d)) return add_halves(c, out, *index, *source, d);
  TensorRef sums = to_dtype(out, DType::Float32);
  add_slices(c, *sums, *index, *to_dtype(*source, DType::Float32), d);
  copy_into(out, *sums);
}
void cpu_index_copy(Call& c) {
  Tensor& out = c.out();
  begin_with_self(c);
  TensorRef source = apart(c.tensor(3), out), index = index_vector(c.tensor(2));
  copy_slices(c, out, *index, *source, c.dim(1, out.ndim));
}
// index_fill_number(self, int dim, Tensor index, Scalar value); …_tensor has a 0-d Tensor value
void infer_index_fill(Call& c) {
  const Tensor& t = c.tensor(0);
  c.dim(1, t.ndim);
  check_index_vector(c, c.tensor(2));
  if (c.args[3].tag == Tag::Tensor && c.tensor(3).ndim != 0)
    runtime_error(c.name(), ": the value must be a number or a tensor without dimensions, got ", int(c.tensor(3).ndim),
                  " dimensions");
  output_laid_as_self(c);
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

const Primitives rows{
    {"index_select", infer_index_select, cpu_index_select, Images::Along},
    {"index_add", infer_index_source, cpu_index_add},
    {"index_copy", infer_index_source, cpu_index_copy},
    {"index_fill_number", infer_index_fill, cpu_index_fill},
    {"index_fill_tensor", infer_index_fill, cpu_index_fill},
};

}  // namespace
}  // namespace flambeau::indices

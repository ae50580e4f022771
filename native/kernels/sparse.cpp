// Products of compressed sparse matrices: with dense matrices, and dense products taken at the places of a pattern.
//
// A pattern is row pointers (rows + 1 of them) and the column of each value. It may come from anywhere and may change
// under the kernel, so the pointers are copied and checked first, and each column is read once, checked, and used.
#include <algorithm>
#include <atomic>
#include <memory>

#include "rows.h"
#include "steady.h"

namespace flambeau {
namespace {

constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kNear = 1 << 19;  // bytes of the dense matrix that the second-level cache keeps

bool is_index(const Tensor& t) { return t.dtype == DType::Int64 || t.dtype == DType::Int32; }
template <class F>
void visit_indices(DType t, F& f) {
  if (t == DType::Int32) f.template operator()<int32_t>();
  else f.template operator()<int64_t>();
}

void check_pattern(const Call& c, const Tensor& crow, const Tensor& col) {
  if (crow.ndim != 1 || col.ndim != 1 || crow.numel < 1)
    runtime_error(c.name(), ": expected row pointers and columns with 1 dimension, got shapes ",
                  shape_text(crow.shape()), " and ", shape_text(col.shape()));
  if (!is_index(crow) || crow.dtype != col.dtype)
    runtime_error(c.name(), ": row pointers and columns must both be int64 or both int32, got ",
                  dtype_name(crow.dtype), " and ", dtype_name(col.dtype));
}

// The row pointers, private and checked: they begin at 0, never fall, and end at the number of values.
TensorRef own_pointers(const Call& c, const Tensor& crow, int64_t values) {
  TensorRef own = snapshot(crow, DType::Int64);
  const int64_t* at = own->ptr<int64_t>();
  uint64_t signs = 0;  // each within [0, values], so that no difference overflows; each at least the one before
  for (int64_t k = 1; k < own->numel; ++k)
    signs |= uint64_t(at[k]) | (uint64_t(values) - uint64_t(at[k])) | (uint64_t(at[k]) - uint64_t(at[k - 1]));
  if (at[0] != 0 || at[own->numel - 1] != values || signs >> 63)
    runtime_error(c.name(), ": row pointers must begin at 0, never fall, and end at the number of values, ", values);
  return own;
}

// Columns that were outside of the matrix, found while they were used.
struct Outside {
  const Call& call;
  int64_t size;
  std::atomic<bool> found{false};
  ~Outside() noexcept(false) {
    if (found && !std::uncaught_exceptions())
      index_error(call.name(), ": a column lies outside of [0, ", size, ")");
  }
};

// f(first row, last row) in parallel: pieces of equal work, where a row costs its values and one more. Pointers that
// change meanwhile make pieces unequal, no more.
template <class I, class F>
void each_rows(const I* at, int64_t rows, int64_t values, int64_t cost, F&& f) {
  const int64_t work = values + rows;
  auto row_at = [&](int64_t unit) {  // the first row that begins at this unit of work or after it
    int64_t low = 0, high = rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (int64_t(at[middle]) + middle < unit) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  parallel_for(work, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cost)), [&](int64_t a, int64_t b) {
    const int64_t first = a == 0 ? 0 : row_at(a), last = b == work ? rows : row_at(b);
    if (first < last) f(first, last);
  });
}

// --- CSR x dense ----------------------------------------------------------------------------------------------------

// One row of the pattern: its values and columns.
template <class T, class I>
struct Entries {
  const T* value;
  const I* column;
  int64_t count;
  int64_t size;   // of the matrix, in columns
  bool* outside;  // set when a column lies outside
  int64_t ahead = INT64_MAX / 2;  // how many entries early dense rows are fetched that no near cache holds
  int64_t at(int64_t k) const {
    const int64_t j = int64_t(__atomic_load_n(column + k, __ATOMIC_RELAXED));
    if (__builtin_expect(uint64_t(j) < uint64_t(size), 1)) return j;
    *outside = true;
    return 0;
  }
};

// out[0 : V lanes] = sum over the row of value * dense[column, 0 : V lanes], kept in registers.
template <int V, class T, class I>
inline void row_block(const Entries<T, I>& row, const T* dense, int64_t step, T* out) {
  constexpr int L = kLanes<T>;
  Vector<T> sum[V] = {};
  for (int64_t k = 0; k < row.count; ++k) {
    const T* from = dense + row.at(k) * step;
    if (V >= 2 && k + row.ahead < row.count) {
      const char* later = reinterpret_cast<const char*>(dense + row.at(k + row.ahead) * step);
      for (int v = 0; v < V * int(sizeof(Vector<T>)); v += 64) __builtin_prefetch(later + v);
    }
    const Vector<T> x = splat<T>(row.value[k]);
    for (int v = 0; v < V; ++v) sum[v] += x * load_vector(from + v * L);
  }
  for (int v = 0; v < V; ++v) store_vector(out + v * L, sum[v]);
}

template <class T, class I>
void row_times_dense(const Entries<T, I>& row, const T* dense, int64_t n, T* out) {
  int64_t j = 0;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr int L = kLanes<T>;
    for (; j + 8 * L <= n; j += 8 * L) row_block<8>(row, dense + j, n, out + j);
    if (j + 4 * L <= n) row_block<4>(row, dense + j, n, out + j), j += 4 * L;
    if (j + 2 * L <= n) row_block<2>(row, dense + j, n, out + j), j += 2 * L;
    if (j + L <= n) row_block<1>(row, dense + j, n, out + j), j += L;
  }
  for (; j < n; j += 4) {
    const int64_t width = std::min<int64_t>(4, n - j);
    T sum[4] = {};
    for (int64_t k = 0; k < row.count; ++k) {
      const T* from = dense + row.at(k) * n + j;
      const T x = row.value[k];
      if (width == 4) for (int v = 0; v < 4; ++v) sum[v] = T(sum[v] + x * from[v]);
      else for (int64_t v = 0; v < width; ++v) sum[v] = T(sum[v] + x * from[v]);
    }
    for (int64_t v = 0; v < width; ++v) out[j + v] = sum[v];
  }
}

// Rows times a vector; false: a column or a row pointer lies outside. A row begins where the one before has ended.
// Long: with four sums, so that additions overlap; of short rows, neighbours do.
template <bool Long, class T, class I>
bool rows_times_vector(const I* at, int64_t first, int64_t last, const T* value, const I* column, int64_t values,
                       int64_t size, const T* dense, T* out) {
  int64_t k = int64_t(at[first]);
  if (k < 0) return false;
  for (int64_t r = first; r < last; ++r) {
    const int64_t end = int64_t(at[r + 1]);
    if (end < k || end > values) return false;
    T sum{};
    auto add = [&](T& to, int64_t at) {
      const uint64_t j = uint64_t(int64_t(column[at]));
      const bool inside = j < uint64_t(size);
      if (__builtin_expect(inside, 1)) to = T(to + value[at] * dense[j]);
      return inside;
    };
    if (Long) {
      T sums[4] = {};
      for (; k + 4 <= end; k += 4)
        for (int v = 0; v < 4; ++v)
          if (!add(sums[v], k + v)) return false;
      sum = T((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    for (; k < end; ++k)
      if (!add(sum, k)) return false;
    out[r] = sum;
  }
  return true;
}

// The arithmetic types that products are computed in; the caller has converted the others.
template <class F>
void visit_numbers(const Call& c, DType t, F&& f) {
  switch (t) {
    case DType::Float32: return f.template operator()<float>();
    case DType::Float64: return f.template operator()<double>();
    case DType::Complex64: return f.template operator()<complex64>();
    case DType::Complex128: return f.template operator()<complex128>();
    case DType::Int64: return f.template operator()<int64_t>();
    default: not_implemented(c.name(), ": not implemented for ", dtype_name(t));
  }
}

void check_values(const Call& c, const Tensor& col, const Tensor& values) {
  if (values.ndim != 1 || values.numel != col.numel)
    runtime_error(c.name(), ": expected one value per column, got shapes ", shape_text(values.shape()), " and ",
                  shape_text(col.shape()));
}

// csr_mm(crow, col, values, dense)
void infer_csr_mm(Call& c) {
  const Tensor &crow = c.tensor(0), &values = c.tensor(2), &dense = c.tensor(3);
  check_pattern(c, crow, c.tensor(1));
  check_values(c, c.tensor(1), values);
  if (dense.ndim != 2 || dense.dtype != values.dtype)
    runtime_error(c.name(), ": expected a matrix of ", dtype_name(values.dtype), ", got ", dtype_name(dense.dtype),
                  " of shape ", shape_text(dense.shape()));
  const int64_t shape[] = {crow.numel - 1, dense.size(1)};
  c.output(shape, values.dtype, values.device);
}
// The row pointers are read where they lie, once each.
void times_vector(Call& c, const Tensor& col, const Tensor& values, const Tensor& dense, Outside& outside) {
  Tensor& out = c.out();
  TensorRef crow = contiguous(c.tensor(0));
  std::atomic<bool> wrong{false};
  visit_numbers(c, out.dtype, [&]<class T>() {
    auto run = [&]<class I>() {
      LockRelease lock(col.numel + out.numel);
      const I* at = crow->ptr<I>();
      wrong = at[0] != 0 || at[out.numel] != col.numel;
      auto* rows = col.numel / out.numel < 16 ? rows_times_vector<false, T, I> : rows_times_vector<true, T, I>;
      each_rows(at, out.numel, col.numel, 1, [&](int64_t first, int64_t last) {
        if (!wrong && !rows(at, first, last, values.ptr<T>(), col.ptr<I>(), col.numel, outside.size, dense.ptr<T>(),
                            out.ptr<T>()))
          wrong = true;
      });
    };
    visit_indices(col.dtype, run);
  });
  if (!wrong) return;
  own_pointers(c, *crow, col.numel);  // says what is wrong with them, if anything is
  outside.found = true;
}

void cpu_csr_mm(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef col = contiguous(c.tensor(1)), values = contiguous(c.tensor(2)), dense = contiguous(c.tensor(3));
  const int64_t n = dense->size(1), rows = out.size(0);
  Outside outside{c, dense->size(0)};
  if (dense->size(0) == 0 && col->numel) {
    outside.found = true;
    return;
  }
  if (n == 1) return times_vector(c, *col, *values, *dense, outside);
  TensorRef crow = own_pointers(c, c.tensor(0), col->numel);
  visit_numbers(c, out.dtype, [&]<class T>() {
    auto run = [&]<class I>() {
      LockRelease lock((col->numel + rows) * n);
      const int64_t* at = crow->ptr<int64_t>();
      const int64_t ahead = dense->nbytes() > kNear ? 8 : INT64_MAX / 2;
      each_rows(at, rows, col->numel, n, [&](int64_t first, int64_t last) {
        bool wrong = false;
        for (int64_t r = first; r < last; ++r) {
          Entries<T, I> row{values->ptr<T>() + at[r], col->ptr<I>() + at[r], at[r + 1] - at[r], outside.size, &wrong,
                            ahead};
          row_times_dense(row, dense->ptr<T>(), n, out.ptr<T>() + r * n);
        }
        if (wrong) outside.found = true;
      });
    };
    visit_indices(col->dtype, run);
  });
}

// --- the largest of each row's dense rows ---------------------------------------------------------------------------

// csr_max(crow, col, dense): for each row of the pattern and each column of `dense` the largest of dense[col], NaN
// above all, and which col it was: 0 and -1 where there is none
void infer_csr_max(Call& c) {
  const Tensor &crow = c.tensor(0), &dense = c.tensor(2);
  check_pattern(c, crow, c.tensor(1));
  if (dense.ndim != 2 || !is_floating(dense.dtype))
    runtime_error(c.name(), ": expected a matrix of floating point numbers, got ", dtype_name(dense.dtype),
                  " of shape ", shape_text(dense.shape()));
  const int64_t shape[] = {crow.numel - 1, dense.size(1)};
  c.output(shape, dense.dtype, dense.device);
  c.output(shape, DType::Int64, dense.device);
}
// `best` and `place` of n columns, those of one row; `where` holds the entry that each came from.
template <class T, class I>
void largest_of_row(const Entries<T, I>& row, const T* dense, int64_t n, T* __restrict best, int64_t* __restrict place,
                    int32_t* __restrict where) {
  std::fill_n(where, n, 0);
  for (int64_t k = 0; k < row.count; ++k) {
    const T* __restrict from = dense + row.at(k) * n;
    if (k == 0) {
      std::copy_n(from, n, best);
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      const bool larger = (from[j] > best[j]) | ((from[j] != from[j]) & (best[j] == best[j]));
      best[j] = larger ? from[j] : best[j];
      where[j] = larger ? int32_t(k) : where[j];
    }
  }
  if (!row.count) std::fill_n(best, n, T(0));
  for (int64_t j = 0; j < n; ++j) place[j] = row.count ? row.at(where[j]) : -1;
}
void cpu_csr_max(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef col = contiguous(c.tensor(1)), dense = contiguous(c.tensor(2));
  const int64_t n = dense->size(1), rows = out.size(0);
  Outside outside{c, dense->size(0)};
  if (dense->size(0) == 0 && col->numel) {
    outside.found = true;
    return;
  }
  TensorRef crow = own_pointers(c, c.tensor(0), col->numel);
  if (col->numel > INT32_MAX) not_implemented(c.name(), ": more than 2^31 - 1 columns");
  visit_rows(c.name(), out.dtype, [&]<class T>() {
    if (!reads_directly<T>(out.dtype)) not_implemented(c.name(), ": not implemented for ", dtype_name(out.dtype));
    auto run = [&]<class I>() {
      LockRelease lock((col->numel + rows) * n);
      const int64_t* at = crow->ptr<int64_t>();
      each_rows(at, rows, col->numel, n, [&](int64_t first, int64_t last) {
        bool wrong = false;
        std::vector<int32_t> where(static_cast<size_t>(n));
        for (int64_t r = first; r < last; ++r)
          largest_of_row(Entries<T, I>{nullptr, col->ptr<I>() + at[r], at[r + 1] - at[r], outside.size, &wrong},
                         dense->ptr<T>(), n, out.ptr<T>() + r * n, c.out(1).ptr<int64_t>() + r * n, where.data());
        if (wrong) outside.found = true;
      });
    };
    visit_indices(col->dtype, run);
  });
}

// --- the dense product at the places of a pattern -------------------------------------------------------------------

template <class T>
T dot(const T* a, const T* b, int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    return T(row_dot(a, b, n));
  } else {
    T sum{};
    for (int64_t k = 0; k < n; ++k) sum = T(sum + a[k] * b[k]);
    return sum;
  }
}

// csr_sampled(crow, col, a, b): a[row] . b[column] for each place; b is the transposed second factor
void infer_csr_sampled(Call& c) {
  const Tensor &crow = c.tensor(0), &col = c.tensor(1), &a = c.tensor(2), &b = c.tensor(3);
  check_pattern(c, crow, col);
  if (a.ndim != 2 || b.ndim != 2 || a.size(1) != b.size(1) || a.dtype != b.dtype || a.size(0) != crow.numel - 1)
    runtime_error(c.name(), ": expected matrices of ", crow.numel - 1, " rows and of equally many columns, got ",
                  dtype_name(a.dtype), " of shape ", shape_text(a.shape()), " and ", dtype_name(b.dtype), " of shape ",
                  shape_text(b.shape()));
  const int64_t shape[] = {col.numel};
  c.output(shape, a.dtype, a.device);
}
void cpu_csr_sampled(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  TensorRef col = contiguous(c.tensor(1)), a = contiguous(c.tensor(2)), b = contiguous(c.tensor(3));
  const int64_t n = a->size(1);
  TensorRef crow = own_pointers(c, c.tensor(0), col->numel);
  Outside outside{c, b->size(0)};
  if (b->size(0) == 0) {
    outside.found = true;
    return;
  }
  visit_numbers(c, out.dtype, [&]<class T>() {
    auto run = [&]<class I>() {
      LockRelease lock(col->numel * n);
      const int64_t* at = crow->ptr<int64_t>();
      each_rows(at, crow->numel - 1, col->numel, n, [&](int64_t first, int64_t last) {
        bool wrong = false;
        for (int64_t r = first; r < last; ++r) {
          Entries<T, I> row{nullptr, col->ptr<I>() + at[r], at[r + 1] - at[r], outside.size, &wrong};
          for (int64_t k = 0; k < row.count; ++k)
            out.ptr<T>()[at[r] + k] = dot(a->ptr<T>() + r * n, b->ptr<T>() + row.at(k) * n, n);
        }
        if (wrong) outside.found = true;
      });
    };
    visit_indices(col->dtype, run);
  });
}

// --- the other compression ------------------------------------------------------------------------------------------

// csr_transpose(crow, col, columns): column pointers, the row of each value, and where each value was
void infer_csr_transpose(Call& c) {
  const Tensor &crow = c.tensor(0), &col = c.tensor(1);
  check_pattern(c, crow, col);
  const int64_t columns = c.integer(2), pointers[] = {columns + 1}, places[] = {col.numel};
  if (columns < 0) runtime_error(c.name(), ": the number of columns must not be negative, got ", columns);
  c.output(pointers, crow.dtype, crow.device);
  c.output(places, crow.dtype, crow.device);
  c.output(places, DType::Int64, crow.device);
}
void cpu_csr_transpose(Call& c) {
  TensorRef col = snapshot(c.tensor(1), DType::Int64), crow = own_pointers(c, c.tensor(0), col->numel);
  const int64_t columns = c.integer(2), n = col->numel, rows = crow->numel - 1;
  const int64_t *j = col->ptr<int64_t>(), *at = crow->ptr<int64_t>();
  LockRelease lock(n + columns);
  for (int64_t k = 0; k < n; ++k)
    if (uint64_t(j[k]) >= uint64_t(columns))
      index_error(c.name(), ": column ", j[k], " lies outside of [0, ", columns, ")");
  auto run = [&]<class I>() {
    std::unique_ptr<int64_t[]> next(new int64_t[size_t(columns) + 1]());
    I *pointer = c.out(0).ptr<I>(), *row = c.out(1).ptr<I>();
    int64_t* was = c.out(2).ptr<int64_t>();
    for (int64_t k = 0; k < n; ++k) ++next[j[k] + 1];
    for (int64_t k = 0; k < columns; ++k) next[k + 1] += next[k];
    for (int64_t k = 0; k <= columns; ++k) pointer[k] = I(next[k]);
    Poll poll;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = at[r]; k < at[r + 1]; ++k, poll()) {
        const int64_t to = next[j[k]]++;
        row[to] = I(r), was[to] = k;
      }
  };
  visit_indices(c.out(0).dtype, run);
}

const Primitives rows{
    {"csr_mm", infer_csr_mm, cpu_csr_mm},
    {"csr_max", infer_csr_max, cpu_csr_max},
    {"csr_sampled", infer_csr_sampled, cpu_csr_sampled},
    {"csr_transpose", infer_csr_transpose, cpu_csr_transpose},
};

}  // namespace
}  // namespace flambeau

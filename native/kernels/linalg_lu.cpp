// LU decompositions and what is made of them: solutions, inverses, determinants.
//
// Small matrices are decomposed by the loops here: a call into LAPACK costs more than they do.
#include <algorithm>
#include <limits>

#include "steady.h"
#include "gemm.h"
#include "matrices.h"

namespace flambeau {
namespace {

constexpr int kSmall = 24;

// P A = L U in place, pivots counted from 1 as LAPACK's; returns the first zero pivot (0: none).
template <class T>
[[gnu::always_inline]] inline int lu_loops(int m, int n, T* a, int lda, int32_t* pivots, bool pivot) {
  int info = 0;
  for (int k = 0; k < std::min(m, n); ++k) {
    T* column = a + int64_t(k) * lda;
    int p = k;
    if (pivot)
      for (int i = k + 1; i < m; ++i)
        if (magnitude(column[i]) > magnitude(column[p])) p = i;
    pivots[k] = p + 1;
    if (column[p] == T(0)) {
      if (!info) info = k + 1;
      continue;
    }
    if (p != k)
      for (int j = 0; j < n; ++j) std::swap(a[k + int64_t(j) * lda], a[p + int64_t(j) * lda]);
    T inverse = T(1) / column[k];
    for (int i = k + 1; i < m; ++i) column[i] = times(column[i], inverse);
    for (int j = k + 1; j < n; ++j) {
      T* to = a + int64_t(j) * lda;
      T f = to[k];
      if (f == T(0)) continue;
      for (int i = k + 1; i < m; ++i) to[i] -= times(column[i], f);
    }
  }
  return info;
}
template <class T>
int lu(int m, int n, T* a, int lda, int32_t* pivots, bool pivot = true);

// Columns in blocks: LAPACK decomposes a block, and the rest is updated by one large product, shared among threads.
template <class T>
int lu_blocks(int m, int n, T* a, int lda, int32_t* pivots) {
  constexpr int kBlock = 96;
  int info = 0, few = std::min(m, n);
  for (int k = 0; k < few; k += kBlock) {
    int nb = std::min(kBlock, few - k);
    T* panel = a + k + int64_t(k) * lda;
    int found = lapack::getrf(m - k, nb, panel, lda, pivots + k);
    if (found && !info) info = k + found;
    for (int i = k; i < k + nb; ++i) pivots[i] += k;
    parallel_for(n - nb, 32, [&](int64_t first, int64_t last) {  // the same exchanges left and right of the block
      for (int64_t at = first; at < last; ++at) {
        T* column = a + (at < k ? at : at + nb) * lda;
        for (int i = k; i < k + nb; ++i)
          if (pivots[i] - 1 != i) std::swap(column[i], column[pivots[i] - 1]);
      }
    });
    int right = n - k - nb, below = m - k - nb;
    if (right <= 0) continue;
    T* top = a + k + int64_t(k + nb) * lda;
    each_piece(right, [&](int64_t first, int64_t last) {
      lapack::trsm('L', 'L', 'N', 'U', nb, int(last - first), panel, lda, top + first * lda, lda);
    });
    if (below <= 0) continue;
    // the matrix lies by columns and the product writes rows of unit stride: all of it transposed
    Epilogue<T> subtract;
    subtract.alpha = -1, subtract.beta = 1;
    gemm<T>(right, below, nb, top, lda, 1, panel + nb, lda, 1, top + nb, lda, subtract);
  }
  return info;
}
template <class T>
int lu(int m, int n, T* a, int lda, int32_t* pivots, bool pivot) {
  if (m == n && lda == n && pivot) switch (n) {  // loops of a length known before
    case 2: return lu_loops(2, 2, a, 2, pivots, true);
    case 3: return lu_loops(3, 3, a, 3, pivots, true);
    case 4: return lu_loops(4, 4, a, 4, pivots, true);
    case 8: return lu_loops(8, 8, a, 8, pivots, true);
    default: break;
  }
  if (!pivot || std::max(m, n) <= kSmall) return lu_loops(m, n, a, lda, pivots, pivot);
  if constexpr (!lapack::kComplex<T>)
    if (std::min(m, n) >= 256) return lu_blocks(m, n, a, lda, pivots);
  return lapack::getrf(m, n, a, lda, pivots);
}

enum class Op : uint8_t { None, Transpose, Adjoint };

// op(P L U) X = B in place of B.
template <class T>
[[gnu::always_inline]] inline void solve_loops(Op op, int n, int nrhs, const T* a, int lda, const int32_t* pivots, T* b,
                                               int ldb) {
  for (int j = 0; j < nrhs; ++j) {
    T* x = b + int64_t(j) * ldb;
    if (op == Op::None) {
      for (int k = 0; k < n; ++k)
        if (pivots[k] - 1 != k) std::swap(x[k], x[pivots[k] - 1]);
      for (int k = 0; k < n; ++k) {
        const T* column = a + int64_t(k) * lda;
        T f = x[k];
        for (int i = k + 1; i < n; ++i) x[i] -= times(f, column[i]);
      }
      for (int k = n - 1; k >= 0; --k) {
        const T* column = a + int64_t(k) * lda;
        T f = x[k] = x[k] / column[k];
        for (int i = 0; i < k; ++i) x[i] -= times(f, column[i]);
      }
      continue;
    }
    bool adjoint = op == Op::Adjoint;
    for (int k = 0; k < n; ++k) {
      const T* column = a + int64_t(k) * lda;
      T sum = x[k];
      for (int i = 0; i < k; ++i) sum -= times(adjoint ? conjugate(column[i]) : column[i], x[i]);
      x[k] = sum / (adjoint ? conjugate(column[k]) : column[k]);
    }
    for (int k = n - 1; k >= 0; --k) {
      const T* column = a + int64_t(k) * lda;
      T sum = x[k];
      for (int i = k + 1; i < n; ++i) sum -= times(adjoint ? conjugate(column[i]) : column[i], x[i]);
      x[k] = sum;
    }
    for (int k = n - 1; k >= 0; --k)
      if (pivots[k] - 1 != k) std::swap(x[k], x[pivots[k] - 1]);
  }
}
template <class T>
void solve(Op op, int n, int nrhs, const T* a, int lda, const int32_t* pivots, T* b, int ldb) {
  if (n == 0 || nrhs == 0) return;
  if (op == Op::None && lda == n && ldb == n) switch (n) {
    case 2: return solve_loops(Op::None, 2, nrhs, a, 2, pivots, b, 2);
    case 3: return solve_loops(Op::None, 3, nrhs, a, 3, pivots, b, 3);
    case 4: return solve_loops(Op::None, 4, nrhs, a, 4, pivots, b, 4);
    case 8: return solve_loops(Op::None, 8, nrhs, a, 8, pivots, b, 8);
    default: break;
  }
  if (n <= kSmall) return solve_loops(op, n, nrhs, a, lda, pivots, b, ldb);
  char trans = op == Op::None ? 'N' : op == Op::Transpose ? 'T' : 'C';
  each_piece(nrhs, [&](int64_t first, int64_t last) {
    lapack::getrs(trans, n, int(last - first), a, lda, pivots, b + first * ldb, ldb);
  });
}

int64_t cube(int64_t n) { return n * n * n / 3 + n * n; }

// Column-major `a` is decomposed for every matrix of A, with pivots and info (null: not wanted).
template <class T>
void decompose(const Tensor& A, T* a, int32_t* pivots, int32_t* info, bool pivot = true) {
  const int64_t m = rows_of(A), n = cols_of(A), few = std::min(m, n), batch = batch_count(A);
  Matrices<T> from(A, batch_of(A));
  each_matrix(batch, m * n * few / 2 + 8, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      T* to = a + b * m * n;
      from.read(b, m, n, to, std::max<int64_t>(1, m));
      int found = few ? lu(int(m), int(n), to, int(m), pivots + b * few, pivot) : 0;
      if (info) info[b] = found;
    }
  });
}

// --- lu_factor_ex --------------------------------------------------------------------------------------------------

void infer_lu_factor(Call& c) {
  Tensor& A = c.tensor(0);
  check_matrix(c, A);
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(with(batch_of(A), {std::min(rows_of(A), cols_of(A))}), DType::Int32, A.device);
  c.output(batch_of(A), DType::Int32, A.device);
}
std::string zero_pivot(int32_t k) {
  return concat(
      "U[", k, ",", k,
      "] is zero, so a later lu_solve would divide by zero. If only the factors are wanted, use linalg.lu(A) or "
      "linalg.lu_factor_ex(A)");
}
void cpu_lu_factor(Call& c) {
  Tensor& A = c.tensor(0);
  lapack::load();
  bool pivot = c.boolean(1);
  Tensor &LU = c.out(0), &pivots = c.out(1), &info = c.out(2);
  {
    LockRelease lock(A.numel * std::min(rows_of(A), cols_of(A)));
    visit_matrices(c, A.dtype,
                   [&]<class T>() { decompose(A, LU.ptr<T>(), pivots.ptr<int32_t>(), info.ptr<int32_t>(), pivot); });
  }
  if (c.boolean(2)) check_info(c, info.ptr<int32_t>(), info.numel, A.ndim > 2, zero_pivot);
}

// --- lu_solve: X of op(A) X = B, or X op(A) = B, from A's decomposition
// -----------------------------------------------

void check_right_side(const Call& c, const Tensor& A, const Tensor& B, bool left) {
  check_matrix(c, B, "B");
  check_same_dtype(c, A, B);
  if ((left ? rows_of(B) : cols_of(B)) != rows_of(A))
    runtime_error(c.name(), ": ", left ? "AX = B" : "XA = B", " cannot hold with A of ", rows_of(A), "x", cols_of(A),
                  " and B of ", rows_of(B), "x", cols_of(B));
}
// Unknowns lie one after the other: by columns, or by rows where they stand on the left of A.
void output_side(Call& c, Dims batch, const Tensor& B, bool left) {
  if (left) output_columns(c, batch, rows_of(B), cols_of(B), B.dtype, B.device);
  else c.output(with(batch, {rows_of(B), cols_of(B)}), B.dtype, B.device);
}
void infer_lu_solve(Call& c) {
  Tensor &LU = c.tensor(0), &pivots = c.tensor(1), &B = c.tensor(2);
  check_square(c, LU, "LU");
  if (pivots.dtype != DType::Int32) runtime_error(c.name(), ": pivots must be int32, as lu_factor returns them, got ",
                                                  dtype_name(pivots.dtype));
  check_right_side(c, LU, B, c.boolean(3));
  auto expected = with(batch_of(LU), {rows_of(LU)});
  if (!std::equal(expected.begin(), expected.end(), pivots.shape().begin(), pivots.shape().end()))
    runtime_error(c.name(), ": there is one pivot per row: LU ", shape_text(LU.shape()), " cannot go with pivots ",
                  shape_text(pivots.shape()));
  auto batch = broadcast_shapes(batch_of(LU), batch_of(B), c.name());
  output_side(c, batch, B, c.boolean(3));
}

// X for every right side, where the decompositions `a` (column-major, contiguous) stand for a batch of their own.
template <class T>
void solve_all(Tensor& X, const Tensor& B, Dims a_batch, int64_t n, const T* a, const int32_t* pivots, bool left,
               Op op) {
  const int64_t rows = rows_of(X), cols = cols_of(X), nrhs = left ? cols : rows;
  Dims batch = batch_of(X);
  Matrices<T> from(B, batch);
  // which decomposition belongs to which result
  std::vector<int64_t> strides = contiguous_strides(a_batch), shape(batch.begin(), batch.end());
  auto index = [&](int64_t b) {
    int64_t at = 0;
    for (int d = int(batch.size()) - 1, e = int(a_batch.size()) - 1; d >= 0; --d, --e) {
      if (e >= 0 && a_batch[size_t(e)] != 1) at += b % shape[size_t(d)] * strides[size_t(e)];
      b /= shape[size_t(d)];
    }
    return at;
  };
  T* out = X.ptr<T>();
  each_matrix(count(batch), n * n * nrhs + 8, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const int64_t k = index(b);
      T* x = out + b * rows * cols;
      if (left) {
        from.read(b, rows, cols, x, rows);
        solve(op, int(n), int(nrhs), a + k * n * n, int(n), pivots + k * n, x, int(n));
        continue;
      }
      // X op(A) = B is op(A)^T X^T = B^T
      T* t = x;
      from.read_transposed(b, cols, rows, t, cols);
      if (op == Op::Adjoint) for (int64_t i = 0; i < rows * cols; ++i) t[i] = conjugate(t[i]);
      solve(op == Op::None ? Op::Transpose : Op::None, int(n), int(nrhs), a + k * n * n, int(n), pivots + k * n, t,
            int(n));
      if (op == Op::Adjoint) for (int64_t i = 0; i < rows * cols; ++i) t[i] = conjugate(t[i]);
    }
  });
}
void cpu_lu_solve(Call& c) {
  Tensor &B = c.tensor(2), &X = c.out();
  lapack::load();
  const Tensor& given = c.tensor(0);
  const int64_t n = rows_of(given), batch = batch_count(given);
  TensorRef pivots = snapshot(c.tensor(1), DType::Int32);
  bool left = c.boolean(3), adjoint = c.boolean(4);
  const int32_t* p = pivots->ptr<int32_t>();
  for (int64_t k = 0; k < pivots->numel; ++k)
    if (p[k] < 1 || p[k] > n) runtime_error(c.name(), ": pivots are row numbers from 1 to ", n, ", got ", p[k]);
  LockRelease lock(X.numel * n);
  visit_matrices(c, B.dtype, [&]<class T>() {
    std::vector<T> a(size_t(batch * n * n));
    Matrices<T> from(given, batch_of(given));
    for (int64_t b = 0; b < batch; ++b) from.read(b, n, n, a.data() + b * n * n, n);
    solve_all<T>(X, B, batch_of(given), n, a.data(), p, left, adjoint ? Op::Adjoint : Op::None);
  });
}

// --- solve: decomposition and solution in one
// -------------------------------------------------------------------------

void infer_solve(Call& c) {
  Tensor &A = c.tensor(0), &B = c.tensor(1);
  check_square(c, A);
  check_right_side(c, A, B, c.boolean(2));
  auto batch = broadcast_shapes(batch_of(A), batch_of(B), c.name());
  output_side(c, batch, B, c.boolean(2));
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(with(batch_of(A), {rows_of(A)}), DType::Int32, A.device);
  c.output(batch_of(A), DType::Int32, A.device);
}
void cpu_solve(Call& c) {
  Tensor &A = c.tensor(0), &B = c.tensor(1), &X = c.out(0), &LU = c.out(1), &pivots = c.out(2), &info = c.out(3);
  lapack::load();
  const int64_t n = rows_of(A);
  LockRelease lock((A.numel + X.numel) * n);
  visit_matrices(c, A.dtype, [&]<class T>() {
    decompose(A, LU.ptr<T>(), pivots.ptr<int32_t>(), info.ptr<int32_t>());
    solve_all<T>(X, B, batch_of(A), n, LU.ptr<T>(), pivots.ptr<int32_t>(), c.boolean(2), Op::None);
  });
}

// --- inv_ex ---------------------------------------------------------------------------------------------------------

void infer_inv(Call& c) {
  Tensor& A = c.tensor(0);
  check_square(c, A);
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(batch_of(A), DType::Int32, A.device);
}
std::string zero_diagonal(int32_t k) {
  return concat("the matrix is singular: the diagonal element ", k, " of its factor is zero, so it has no inverse");
}
void cpu_inv(Call& c) {
  Tensor &A = c.tensor(0), &out = c.out(0), &info = c.out(1);
  lapack::load();
  const int64_t n = rows_of(A), batch = batch_count(A);
  {
    LockRelease lock(A.numel * n);
    visit_matrices(c, A.dtype, [&]<class T>() {
      Matrices<T> from(A, batch_of(A));
      int32_t* failed = info.ptr<int32_t>();
      each_matrix(batch, 3 * cube(n), [&](int64_t first, int64_t last) {
        std::vector<int32_t> pivots(static_cast<size_t>(n));
        std::vector<T> a(size_t(n) * size_t(n));
        for (int64_t b = first; b < last; ++b) {
          T* x = out.ptr<T>() + b * n * n;
          from.read(b, n, n, a.data(), n);
          failed[b] = n ? lu(int(n), int(n), a.data(), int(n), pivots.data()) : 0;
          if (failed[b]) {
            std::copy_n(a.data(), n * n, x);
            continue;
          }
          std::fill_n(x, n * n, T(0));
          for (int64_t k = 0; k < n; ++k) x[k + k * n] = T(1);
          solve(Op::None, int(n), int(n), a.data(), int(n), pivots.data(), x, int(n));
        }
      });
    });
  }
  if (c.boolean(1)) check_info(c, info.ptr<int32_t>(), batch, A.ndim > 2, zero_diagonal);
}

// --- determinants
// -----------------------------------------------------------------------------------------------------

void infer_det(Call& c) {
  Tensor& A = c.tensor(0);
  check_square(c, A);
  c.output(batch_of(A), A.dtype, A.device);
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(with(batch_of(A), {rows_of(A)}), DType::Int32, A.device);
}
void infer_slogdet(Call& c) {
  Tensor& A = c.tensor(0);
  check_square(c, A);
  c.output(batch_of(A), A.dtype, A.device);
  c.output(batch_of(A), real_of(A.dtype), A.device);
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(with(batch_of(A), {rows_of(A)}), DType::Int32, A.device);
}
// The exchanges of rows: their number's sign.
template <class T>
T sign_of(const int32_t* pivots, int64_t n) {
  bool odd = false;
  for (int64_t k = 0; k < n; ++k) odd ^= pivots[k] != k + 1;
  return odd ? T(-1) : T(1);
}
void cpu_det(Call& c) {
  Tensor &A = c.tensor(0), &out = c.out(0), &LU = c.out(1), &pivots = c.out(2);
  lapack::load();
  const int64_t n = rows_of(A);
  LockRelease lock(A.numel * n);
  visit_matrices(c, A.dtype, [&]<class T>() {
    decompose<T>(A, LU.ptr<T>(), pivots.ptr<int32_t>(), nullptr);
    for (int64_t b = 0; b < out.numel; ++b) {
      T product = sign_of<T>(pivots.ptr<int32_t>() + b * n, n);
      for (int64_t k = 0; k < n; ++k) product = times(product, LU.ptr<T>()[b * n * n + k * (n + 1)]);
      out.ptr<T>()[b] = product;
    }
  });
}
void cpu_slogdet(Call& c) {
  Tensor &A = c.tensor(0), &sign = c.out(0), &log = c.out(1), &LU = c.out(2), &pivots = c.out(3);
  lapack::load();
  const int64_t n = rows_of(A);
  LockRelease lock(A.numel * n);
  visit_matrices(c, A.dtype, [&]<class T>() {
    using R = lapack::real_t<T>;
    decompose<T>(A, LU.ptr<T>(), pivots.ptr<int32_t>(), nullptr);
    for (int64_t b = 0; b < sign.numel; ++b) {
      T s = sign_of<T>(pivots.ptr<int32_t>() + b * n, n);
      R sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        T d = LU.ptr<T>()[b * n * n + k * (n + 1)];
        R size = std::abs(d);
        s = times(s, size == 0 ? T(0) : size != size ? T(size) : T(d / size));
        sum += std::log(size);
      }
      sign.ptr<T>()[b] = s;
      log.ptr<R>()[b] = sum;
    }
  });
}

// --- the permutation that pivots stand for
// ------------------------------------------------------------------------------

void infer_permutation(Call& c) {
  Tensor& pivots = c.tensor(0);
  if (pivots.ndim < 1 || pivots.dtype != DType::Int32)
    runtime_error(c.name(), ": pivots must be int32, as lu_factor returns them, got ", dtype_name(pivots.dtype));
  c.output(with(pivots.shape().first(size_t(pivots.ndim - 1)), {c.integer(1)}), DType::Int64, pivots.device);
}
void cpu_permutation(Call& c) {
  TensorRef pivots = snapshot(c.tensor(0), DType::Int32);
  Tensor& out = c.out();
  const int64_t m = c.integer(1), k = pivots->size(pivots->ndim - 1), batch = m ? out.numel / m : 0;
  for (int64_t b = 0; b < batch; ++b) {
    const int32_t* p = pivots->ptr<int32_t>() + b * k;
    int64_t* to = out.ptr<int64_t>() + b * m;
    for (int64_t i = 0; i < m; ++i) to[i] = i;
    for (int64_t i = 0; i < k; ++i) {
      if (p[i] < 1 || p[i] > m || i >= m)
        runtime_error(c.name(), ": pivots are row numbers from 1 to ", m, ", got ", p[i]);
      std::swap(to[i], to[p[i] - 1]);
    }
  }
}

// --- what went wrong, after an operator that only reports it
// -------------------------------------------------------------

void infer_check(Call& c) {
  if (c.tensor(0).dtype != DType::Int32) runtime_error(c.name(), ": info must be of dtype int32");
}
void cpu_check(Call& c) {
  TensorRef info = contiguous(c.tensor(0));
  raise_failures(info->ptr<int32_t>(), info->numel, c.str(1), !c.boolean(2));
}

// --- a pivot so small that it does not count, where one is needed that is not zero
// ----------------------------------------

void infer_smallest(Call& c) {
  Tensor& LU = c.tensor(0);
  c.output(with(batch_of(LU), {1}), real_of(LU.dtype), LU.device);
}
void cpu_smallest(Call& c) {
  Tensor &LU = c.tensor(0), &out = c.out();
  visit_matrices(c, LU.dtype, [&]<class T>() {
    using R = lapack::real_t<T>;
    Matrices<T> from(LU, batch_of(LU));
    for (int64_t b = 0; b < out.numel; ++b) {
      R largest = 0;
      for (int64_t i = 0; i < rows_of(LU); ++i)
        for (int64_t j = 0; j < cols_of(LU); ++j)
          largest = std::max(largest, std::abs(from.at(b)[i * from.rs + j * from.cs]));
      out.ptr<R>()[b] = std::numeric_limits<R>::epsilon() *
                        std::max(largest, std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon());
    }
  });
}

const Primitives rows{
    {"linalg_lu_factor_ex", infer_lu_factor, cpu_lu_factor},
    {"_lu_solve", infer_lu_solve, cpu_lu_solve},
    {"_linalg_solve_ex", infer_solve, cpu_solve},
    {"linalg_inv_ex", infer_inv, cpu_inv},
    {"_linalg_det", infer_det, cpu_det},
    {"_linalg_slogdet", infer_slogdet, cpu_slogdet},
    {"_permutation_of_pivots", infer_permutation, cpu_permutation},
    {"_smallest_pivot", infer_smallest, cpu_smallest},
    {"_linalg_check_errors", infer_check, cpu_check},
};

}  // namespace

std::string failure_text(std::string_view api, int32_t info) {
  auto about = [&](std::string_view word) { return api.find(word) != api.npos; };
  if (about("eig") || about("svd"))
    return concat("the iteration did not converge, because the matrix has ",
                  about("svd") ? "singular values" : "eigenvalues", " that are too close or too far apart (code ", info,
                  ")");
  if (info < 0)
    return concat("info ", -info, " says that argument was not valid, which is an error of this library; please report "
                  "it");
  if (about("inv")) return zero_diagonal(info);
  if (about("cholesky"))
    return concat("the matrix is not positive definite (its leading minor of order ", info, " is not)");
  if (about("lu_factor")) return zero_pivot(info);
  if (about("ldl")) return concat("the matrix is singular: D[", info, ",", info, "] is zero");
  return "the matrix is singular, so the system has no unique solution";
}

void raise_failure(std::string_view api, int64_t batch, int32_t info) {
  const std::string which = batch < 0 ? concat(api, ": ") : concat(api, ": (Batch element ", batch, "): ");
  if (info == kNotFinite && api == "linalg.eig") runtime_error("linalg.eig: the matrix holds inf or nan");
  if (info == kNotFinite && api == "linalg.svd") fail(ErrorKind::LinAlg, which, "the matrix holds inf or nan");
  fail(ErrorKind::LinAlg, which, failure_text(api, info));
}
void raise_failures(const int32_t* info, int64_t n, std::string_view api, bool batched) {
  const int32_t* found = std::find_if(info, info + n, [](int32_t k) { return k != 0; });
  if (found != info + n) raise_failure(api, batched ? found - info : -1, *found);
}

}  // namespace flambeau

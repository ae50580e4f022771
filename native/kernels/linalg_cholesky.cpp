// Triangular systems, and decompositions of symmetric matrices: Cholesky and LDL.
#include "gemm.h"
#include "matrices.h"

namespace flambeau {
namespace {

constexpr int kSmall = 24;

// --- Cholesky
// ---------------------------------------------------------------------------------------------------------

// L of A = L L^H in the lower triangle; returns the order of the first minor that is not positive.
template <class T>
int cholesky_loops(int n, T* a, int lda) {
  using R = lapack::real_t<T>;
  for (int j = 0; j < n; ++j) {
    T* column = a + int64_t(j) * lda;
    R d = std::real(column[j]);
    if (!(d > 0)) return j + 1;
    d = std::sqrt(d);
    column[j] = T(d);
    R inverse = R(1) / d;
    for (int i = j + 1; i < n; ++i) column[i] *= inverse;
    for (int k = j + 1; k < n; ++k) {
      T* to = a + int64_t(k) * lda;
      T f = conjugate(column[k]);
      for (int i = k; i < n; ++i) to[i] -= times(column[i], f);
    }
  }
  return 0;
}
// Blocks of columns: each is decomposed by LAPACK, and one large product, shared among threads, updates the rest.
template <class T>
int cholesky_blocks(int n, T* a, int lda) {
  constexpr int kBlock = 128, kStrip = 512;
  for (int k = 0; k < n; k += kBlock) {
    int nb = std::min(kBlock, n - k), below = n - k - nb;
    T* corner = a + k + int64_t(k) * lda;
    if (int info = lapack::potrf('L', nb, corner, lda)) return k + info;
    if (!below) break;
    T* panel = corner + nb;
    each_piece(below, [&](int64_t first, int64_t last) {
      lapack::trsm('R', 'L', 'T', 'N', int(last - first), nb, corner, lda, panel + first, lda);
    });
    Epilogue<T> subtract;
    subtract.alpha = -1, subtract.beta = 1;
    for (int j = 0; j < below; j += kStrip) {  // columns j …: only what lies below the diagonal
      int width = std::min(kStrip, below - j);
      T* to = a + (k + nb + j) * int64_t(lda + 1);
      gemm<T>(width, below - j, nb, panel + j, 1, lda, panel + j, lda, 1, to, lda, subtract);
    }
  }
  return 0;
}
template <class T>
int cholesky(int n, T* a, int lda) {
  if (n <= kSmall) return cholesky_loops(n, a, lda);
  if constexpr (!lapack::kComplex<T>)
    if (n >= 256) return cholesky_blocks(n, a, lda);
  return lapack::potrf('L', n, a, lda);
}

void infer_cholesky(Call& c) {
  Tensor& A = c.tensor(0);
  check_square(c, A);
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(batch_of(A), DType::Int32, A.device);
}
void cpu_cholesky(Call& c) {
  Tensor &A = c.tensor(0), &out = c.out(0), &info = c.out(1);
  lapack::load();
  const int64_t n = rows_of(A), batch = batch_count(A);
  const bool upper = c.boolean(1);
  {
    LockRelease lock(A.numel * n);
    visit_matrices(c, A.dtype, [&]<class T>() {
      Matrices<T> from(A, batch_of(A));
      each_matrix(batch, n * n * n / 3 + n * n, [&](int64_t first, int64_t last) {
        std::vector<T> turned(upper ? area(n, n) : 0);
        for (int64_t b = first; b < last; ++b) {
          T *x = out.ptr<T>() + b * n * n, *a = upper ? turned.data() : x;
          // the upper triangle is read as the adjoint of the lower one
          if (upper) from.read_transposed(b, n, n, a, n);
          else from.read(b, n, n, a, n);
          if (upper && lapack::kComplex<T>) for (int64_t i = 0; i < n * n; ++i) a[i] = conjugate(a[i]);
          info.ptr<int32_t>()[b] = n ? cholesky(int(n), a, int(n)) : 0;
          for (int64_t j = 1; j < n; ++j) std::fill_n(a + j * n, j, T(0));
          if (!upper) continue;
          for (int64_t j = 0; j < n; ++j)
            for (int64_t i = 0; i < n; ++i) x[i + j * n] = conjugate(a[j + i * n]);
        }
      });
    });
  }
  if (c.boolean(2))
    check_info(c, info.ptr<int32_t>(), batch, A.ndim > 2, [](int32_t k) {
      return concat("the matrix is not positive definite (its leading minor of order ", k, " is not)");
    });
}

// --- triangular systems
// -------------------------------------------------------------------------------------------------

void infer_triangular(Call& c) {
  Tensor &A = c.tensor(0), &B = c.tensor(1);
  check_square(c, A);
  check_matrix(c, B, "B");
  check_same_dtype(c, A, B);
  bool left = c.boolean(3);
  if ((left ? rows_of(B) : cols_of(B)) != rows_of(A))
    runtime_error(c.name(), ": ", left ? "AX = B" : "XA = B", " cannot hold with A of ", rows_of(A), "x", cols_of(A),
                  " and B of ", rows_of(B), "x", cols_of(B));
  auto batch = broadcast_shapes(batch_of(A), batch_of(B), c.name());
  output_columns(c, batch, rows_of(B), cols_of(B), B.dtype, B.device);
}
template <class T>
void substitute(bool upper, bool unit, int n, int nrhs, const T* a, int lda, T* b, int ldb) {
  for (int j = 0; j < nrhs; ++j) {
    T* x = b + int64_t(j) * ldb;
    if (upper) {
      for (int k = n - 1; k >= 0; --k) {
        const T* column = a + int64_t(k) * lda;
        T f = x[k] = unit ? x[k] : x[k] / column[k];
        for (int i = 0; i < k; ++i) x[i] -= times(f, column[i]);
      }
    } else {
      for (int k = 0; k < n; ++k) {
        const T* column = a + int64_t(k) * lda;
        T f = x[k] = unit ? x[k] : x[k] / column[k];
        for (int i = k + 1; i < n; ++i) x[i] -= times(f, column[i]);
      }
    }
  }
}
// One system of a batch, in columns: A X = B, or X A = B, which is A^T X^T = B^T.
struct System {
  bool upper, left, unit;
  int64_t n, rows, cols;  // of A; of X
  int64_t right_sides() const { return left ? cols : rows; }
};
template <class T>
void solve_small(const System& s, const Matrices<T>& a, const Matrices<T>& b, int64_t k, T* dense, T* turned, T* x) {
  const int n = int(s.n), nrhs = int(s.right_sides());
  if (s.left) {
    a.read(k, n, n, dense, n);
    b.read(k, s.rows, s.cols, x, s.rows);
    substitute(s.upper, s.unit, n, nrhs, dense, n, x, n);
  } else {
    a.read_transposed(k, n, n, dense, n);
    b.read_transposed(k, s.cols, s.rows, turned, s.cols);
    substitute(!s.upper, s.unit, n, nrhs, dense, n, turned, n);
    Matrices<T>::copy(turned, s.cols, 1, s.rows, s.cols, x, s.rows);
  }
}
// LAPACK reads columns or, as a transposed matrix, rows: `transposed` says that `matrix` lies in rows. x holds B.
template <class T>
void solve_large(const System& s, const T* matrix, int64_t lda, bool transposed, T* x) {
  const int64_t n = s.n, rows = s.rows, nrhs = s.right_sides();
  char uplo = s.upper != transposed ? 'U' : 'L', trans = transposed ? 'T' : 'N', diag = s.unit ? 'U' : 'N';
  if (nrhs <= 2 && n >= 256) {
    for (int64_t j = 0; j < nrhs; ++j)
      lapack::trsv(uplo, s.left == transposed ? 'T' : 'N', diag, int(n), matrix, int(lda),
                   s.left ? x + j * rows : x + j, s.left ? 1 : int(rows));
    return;
  }
  each_piece(nrhs, [&](int64_t from, int64_t to) {
    if (s.left)
      lapack::trsm('L', uplo, trans, diag, int(n), int(to - from), matrix, int(lda), x + from * rows, int(rows));
    else
      lapack::trsm('R', uplo, trans, diag, int(to - from), int(n), matrix, int(lda), x + from, int(rows));
  });
}
void cpu_triangular(Call& c) {
  Tensor &A = c.tensor(0), &B = c.tensor(1), &X = c.out();
  lapack::load();
  const System s{c.boolean(2), c.boolean(3), c.boolean(4), rows_of(A), rows_of(X), cols_of(X)};
  const int64_t n = s.n, area_of_x = s.rows * s.cols;
  if (X.numel == 0) return;
  LockRelease lock(X.numel * n);
  visit_matrices(c, A.dtype, [&]<class T>() {
    Matrices<T> a(A, batch_of(X)), b(B, batch_of(X));
    const bool by_columns = a.rs == 1 && a.cs >= n, by_rows = a.cs == 1 && a.rs >= n, lies = by_columns || by_rows;
    each_matrix(count(batch_of(X)), n * n * s.right_sides(), [&](int64_t first, int64_t last) {
      const bool small = n <= kSmall;
      std::vector<T> dense(small || !lies ? area(n, n) : 0), turned(small && !s.left ? area(s.rows, s.cols) : 0);
      for (int64_t k = first; k < last; ++k) {
        T* x = X.ptr<T>() + k * area_of_x;
        if (small) {
          solve_small(s, a, b, k, dense.data(), turned.data(), x);
          continue;
        }
        if (!lies) a.read(k, n, n, dense.data(), n);
        b.read(k, s.rows, s.cols, x, s.rows);
        solve_large<T>(s, lies ? a.at(k) : dense.data(), !lies ? n : by_columns ? a.cs : a.rs, !by_columns && by_rows,
                       x);
      }
    });
  });
}

// --- with a Cholesky factor: the records compute them from triangular systems
// ------------------------------------------

void infer_cholesky_solve(Call& c) {
  Tensor &B = c.tensor(0), &L = c.tensor(1);
  check_matrix(c, B, "b");
  check_square(c, L, "A");
  check_same_dtype(c, L, B);
  if (rows_of(B) != rows_of(L))
    runtime_error(c.name(), ": A of ", rows_of(L), "x", cols_of(L), " and B of ", rows_of(B), "x", cols_of(B), " must "
                  "have equally many rows");
  output_columns(c, broadcast_shapes(batch_of(L), batch_of(B), c.name()), rows_of(B), cols_of(B), B.dtype, B.device);
}
void infer_cholesky_inverse(Call& c) {
  Tensor& L = c.tensor(0);
  check_square(c, L);
  output_columns(c, batch_of(L), rows_of(L), cols_of(L), L.dtype, L.device);
}

// --- LDL
// --------------------------------------------------------------------------------------------------------------

void infer_ldl(Call& c) {
  Tensor& A = c.tensor(0);
  check_square(c, A);
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(with(batch_of(A), {rows_of(A)}), DType::Int32, A.device);
  c.output(batch_of(A), DType::Int32, A.device);
}
void cpu_ldl(Call& c) {
  Tensor &A = c.tensor(0), &LD = c.out(0), &pivots = c.out(1), &info = c.out(2);
  lapack::load();
  const int64_t n = rows_of(A), batch = batch_count(A);
  const bool hermitian = c.boolean(1) && is_complex(A.dtype);
  {
    LockRelease lock(A.numel * n);
    visit_matrices(c, A.dtype, [&]<class T>() {
      Matrices<T> from(A, batch_of(A));
      each_matrix(batch, n * n * n / 3 + n * n, [&](int64_t first, int64_t last) {
        lapack::Work<T> work;
        for (int64_t b = first; b < last; ++b) {
          T* x = LD.ptr<T>() + b * n * n;
          from.read(b, n, n, x, n);
          info.ptr<int32_t>()[b] =
              n ? lapack::sytrf(hermitian, int(n), x, int(n), pivots.ptr<int32_t>() + b * n, work) : 0;
          for (int64_t j = 1; j < n; ++j) std::fill_n(x + j * n, j, T(0));
        }
      });
    });
  }
  if (c.boolean(2))
    check_info(c, info.ptr<int32_t>(), batch, A.ndim > 2, [](int32_t k) {
      return concat("the matrix is singular: D[", k, ",", k, "] is zero");
    });
}
void infer_ldl_solve(Call& c) {
  Tensor &LD = c.tensor(0), &pivots = c.tensor(1), &B = c.tensor(2);
  check_square(c, LD, "LD");
  check_matrix(c, B, "B");
  check_same_dtype(c, LD, B);
  if (rows_of(B) != rows_of(LD))
    runtime_error(c.name(), ": Incompatible shapes of LD ", shape_text(LD.shape()), " and B ", shape_text(B.shape()));
  auto expected = with(batch_of(LD), {rows_of(LD)});
  if (!std::equal(expected.begin(), expected.end(), pivots.shape().begin(), pivots.shape().end()))
    runtime_error(c.name(), ": pivots must be shaped as LD without its last dimension, got ",
                  shape_text(pivots.shape()));
  if (!is_integral(pivots.dtype)) runtime_error(c.name(), ": pivots must be integers, got ", dtype_name(pivots.dtype));
  auto batch = broadcast_shapes(batch_of(LD), batch_of(B), c.name());
  output_columns(c, batch, rows_of(B), cols_of(B), B.dtype, B.device);
}
void cpu_ldl_solve(Call& c) {
  Tensor &LD = c.tensor(0), &B = c.tensor(2), &X = c.out();
  lapack::load();
  TensorRef swaps = to_dtype(c.tensor(1), DType::Int32);
  const int64_t n = rows_of(LD), nrhs = cols_of(B);
  const bool hermitian = c.boolean(3) && is_complex(LD.dtype);
  if (X.numel == 0) return;
  visit_matrices(c, LD.dtype, [&]<class T>() {
    Matrices<T> a(LD, batch_of(X)), b(B, batch_of(X));
    // pivots broadcast as LD does: seen as matrices of one column
    TensorRef columns = view_of(*swaps, with(swaps->shape(), {1}), with(swaps->stride(), {1}), swaps->data);
    Matrices<int32_t> p(*columns, batch_of(X));
    std::vector<int32_t> pivots(static_cast<size_t>(n));
    std::vector<T> dense(area(n, n));
    for (int64_t k = 0; k < count(batch_of(X)); ++k) {
      T* x = X.ptr<T>() + k * n * nrhs;
      a.read(k, n, n, dense.data(), n);
      b.read(k, n, nrhs, x, n);
      p.read(k, n, 1, pivots.data(), n);
      for (int64_t i = 0; i < n; ++i) {  // LAPACK would follow any: negative ones belong to two rows each
        const int32_t v = pivots[size_t(i)];
        bool two = v < 0 && i + 1 < n && pivots[size_t(i + 1)] < 0;
        if (v == 0 || std::abs(int64_t(v)) > n || (v < 0 && !two) ||
            (two && std::abs(int64_t(pivots[size_t(i + 1)])) > n))
          runtime_error(
              c.name(),
              ": pivots must be those of ldl_factor: between 1 and the order of LD, or two negative ones; got ", v);
        i += two;
      }
      lapack::sytrs(hermitian, int(n), int(nrhs), dense.data(), int(n), pivots.data(), x, int(n));
    }
  });
}

const Primitives rows{
    {"linalg_cholesky_ex", infer_cholesky, cpu_cholesky},
    {"_solve_triangular", infer_triangular, cpu_triangular},
    {"cholesky_solve", infer_cholesky_solve, python_kernel},
    {"cholesky_inverse", infer_cholesky_inverse, python_kernel},
    {"linalg_ldl_factor_ex", infer_ldl, cpu_ldl},
    {"_ldl_solve", infer_ldl_solve, cpu_ldl_solve},
};

}  // namespace
}  // namespace flambeau

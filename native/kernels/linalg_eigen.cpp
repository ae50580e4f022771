// Eigenvalues and singular values, with their vectors.
#include <atomic>
#include <limits>
#include <mutex>

#include "matrices.h"

namespace flambeau {
namespace {

// The first matrix that did not converge, for an error after the lock is taken again; -1: none.
struct Failure {
  int64_t batch = -1;
  int info = 0;
  std::mutex mutex;
  void note(int64_t b, int found) {
    std::lock_guard guard(mutex);
    if (batch < 0 || b < batch) batch = b, info = found;
  }
  void raise(const char* api, bool batched) const {
    if (batch >= 0) raise_failure(api, batched ? batch : -1, info);
  }
};

// --- Hermitian
// ----------------------------------------------------------------------------------------------------------

void infer_eigh(Call& c) {
  Tensor& A = c.tensor(0);
  check_square(c, A);
  std::string_view uplo = c.str(1);
  if (uplo.size() != 1 || (toupper(uplo[0]) != 'L' && toupper(uplo[0]) != 'U'))
    runtime_error(c.name(), ": UPLO must be 'L' or 'U', got '", uplo, "'");
  c.output(with(batch_of(A), {rows_of(A)}), real_of(A.dtype), A.device);
  if (c.boolean(2)) output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  else c.output(std::vector<int64_t>{0}, A.dtype, A.device);
}
void cpu_eigh(Call& c) {
  Tensor &A = c.tensor(0), &values = c.out(0), &vectors = c.out(1);
  lapack::load();
  const int64_t n = rows_of(A), batch = batch_count(A);
  const char uplo = char(toupper(c.str(1)[0]));
  const bool wanted = c.boolean(2);
  if (n == 0) return;
  Failure failure;
  {
    LockRelease lock(A.numel * n * 4);
    visit_matrices(c, A.dtype, [&]<class T>() {
      using R = lapack::real_t<T>;
      Matrices<T> from(A, batch_of(A));
      each_matrix(batch, 8 * n * n * n, [&](int64_t first, int64_t last) {
        lapack::Work<T> work;
        lapack::Work<R> rwork;
        lapack::Work<int> iwork;
        std::vector<T> scratch(wanted ? 0 : area(n, n));
        for (int64_t b = first; b < last; ++b) {
          T* a = wanted ? vectors.ptr<T>() + b * n * n : scratch.data();
          from.read(b, n, n, a, n);
          R* w = values.ptr<R>() + b * n;
          if (!finite(a, n * n)) {
            std::fill_n(w, n, std::numeric_limits<R>::quiet_NaN());
            std::fill_n(a, n * n, T(std::numeric_limits<R>::quiet_NaN()));
            continue;
          }
          if (int info = lapack::heevd(wanted, uplo, int(n), a, int(n), w, work, rwork, iwork)) failure.note(b, info);
        }
      });
    });
  }
  failure.raise("linalg.eigh", A.ndim > 2);
}

// --- any square matrix
// ----------------------------------------------------------------------------------------------------

void infer_eig(Call& c) {
  Tensor& A = c.tensor(0);
  check_square(c, A);
  c.output(with(batch_of(A), {rows_of(A)}), complex_of(A.dtype), A.device);
  if (c.boolean(1)) output_columns(c, batch_of(A), rows_of(A), cols_of(A), complex_of(A.dtype), A.device);
  else c.output(std::vector<int64_t>{0}, complex_of(A.dtype), A.device);
}
// Of a conjugate pair of eigenvalues LAPACK gives real and imaginary part of one vector in two columns.
template <class R>
void unpack_pairs(int64_t n, const std::complex<R>* w, const R* v, std::complex<R>* to) {
  for (int64_t j = 0; j < n; ++j) {
    if (w[j].imag() == 0 || j + 1 == n) {
      for (int64_t i = 0; i < n; ++i) to[j * n + i] = v[j * n + i];
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      std::complex<R> z{v[j * n + i], v[(j + 1) * n + i]};
      to[j * n + i] = z;
      to[(j + 1) * n + i] = std::conj(z);
    }
    ++j;
  }
}
void cpu_eig(Call& c) {
  Tensor &A = c.tensor(0), &values = c.out(0), &vectors = c.out(1);
  lapack::load();
  const int64_t n = rows_of(A), batch = batch_count(A);
  const bool wanted = c.boolean(1);
  if (n == 0) return;
  Failure failure;
  std::atomic<bool> infinite = false;
  {
    LockRelease lock(A.numel * n * 8);
    visit_matrices(c, A.dtype, [&]<class T>() {
      using C = std::complex<lapack::real_t<T>>;
      Matrices<T> from(A, batch_of(A));
      each_matrix(batch, 20 * n * n * n, [&](int64_t first, int64_t last) {
        lapack::Work<T> work;
        lapack::Work<lapack::real_t<T>> rwork;
        std::vector<T> a(area(n, n)), v(wanted && !lapack::kComplex<T> ? area(n, n) : 0);
        for (int64_t b = first; b < last; ++b) {
          from.read(b, n, n, a.data(), n);
          if (!finite(a.data(), n * n)) {
            infinite = true;
            continue;
          }
          C *w = values.ptr<C>() + b * n, *to = wanted ? vectors.ptr<C>() + b * n * n : nullptr;
          T* found = v.data();
          if constexpr (lapack::kComplex<T>) found = to;
          int info = lapack::geev(wanted, int(n), a.data(), int(n), w, found, int(n), work, rwork);
          if (info) failure.note(b, info);
          if constexpr (!lapack::kComplex<T>)
            if (wanted && !info) unpack_pairs(n, w, v.data(), to);
        }
      });
    });
  }
  if (infinite) raise_failure("linalg.eig", -1, kNotFinite);
  failure.raise("linalg.eig", A.ndim > 2);
}

// --- singular values
// ------------------------------------------------------------------------------------------------------

void infer_svd(Call& c) {
  Tensor& A = c.tensor(0);
  check_matrix(c, A);
  const int64_t m = rows_of(A), n = cols_of(A), k = std::min(m, n);
  const bool full = c.boolean(1), vectors = c.boolean(2);
  if (vectors) output_columns(c, batch_of(A), m, full ? m : k, A.dtype, A.device);
  else c.output(std::vector<int64_t>{0}, A.dtype, A.device);
  c.output(with(batch_of(A), {k}), real_of(A.dtype), A.device);
  if (vectors) output_columns(c, batch_of(A), full ? n : k, n, A.dtype, A.device);
  else c.output(std::vector<int64_t>{0}, A.dtype, A.device);
}
template <class T>
void identities(Tensor& t) {
  fill(t, Scalar(0.0));
  const int64_t m = rows_of(t), n = cols_of(t);
  for (int64_t b = 0; b < batch_count(t); ++b)
    for (int64_t k = 0; k < std::min(m, n); ++k) t.ptr<T>()[b * m * n + k * (m + 1)] = T(1);
}
void cpu_svd(Call& c) {
  Tensor &A = c.tensor(0), &U = c.out(0), &S = c.out(1), &V = c.out(2);
  lapack::load();
  const int64_t m = rows_of(A), n = cols_of(A), k = std::min(m, n), batch = batch_count(A);
  const bool full = c.boolean(1), vectors = c.boolean(2);
  Failure failure;
  visit_matrices(c, A.dtype, [&]<class T>() {
    using R = lapack::real_t<T>;
    if (k == 0 || batch == 0) {
      if (vectors && full && batch) identities<T>(U), identities<T>(V);
      return;
    }
    const int64_t ucols = full ? m : k, vrows = full ? n : k;
    LockRelease lock(batch * m * n * k * 4);
    Matrices<T> from(A, batch_of(A));
    each_matrix(batch, 16 * m * n * k, [&](int64_t first, int64_t last) {
      lapack::Work<T> work;
      lapack::Work<R> rwork;
      lapack::Work<int> iwork;
      std::vector<T> a(area(m, n));
      for (int64_t b = first; b < last; ++b) {
        from.read(b, m, n, a.data(), m);
        T *u = vectors ? U.ptr<T>() + b * m * ucols : a.data(), *v = vectors ? V.ptr<T>() + b * vrows * n : a.data();
        int info = finite(a.data(), m * n)
                       ? lapack::gesdd(vectors ? full ? 'A' : 'S' : 'N', int(m), int(n), a.data(), int(m),
                                       S.ptr<R>() + b * k, u, int(m), v, int(vectors ? vrows : k), work, rwork, iwork)
                       : kNotFinite;
        if (info) failure.note(b, info);
      }
    });
  });
  failure.raise("linalg.svd", A.ndim > 2);
}

// --- pseudo-inverse: its record computes it from singular values
// ----------------------------------------------------------

void infer_pinv(Call& c) {
  Tensor& A = c.tensor(0);
  check_matrix(c, A);
  c.output(with(batch_of(A), {cols_of(A), rows_of(A)}), A.dtype, A.device);
}

const Primitives rows{
    {"_linalg_eigh", infer_eigh, cpu_eigh},
    {"_linalg_eig", infer_eig, cpu_eig},
    {"_linalg_svd", infer_svd, cpu_svd},
    {"_linalg_pinv", infer_pinv, python_kernel},
};

}  // namespace
}  // namespace flambeau

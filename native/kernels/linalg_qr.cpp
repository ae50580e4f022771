// QR decompositions by Householder reflections, and least squares.
#include "matrices.h"

namespace flambeau {
namespace {

int64_t cost_of(const Tensor& A) { return 2 * rows_of(A) * cols_of(A) * std::min(rows_of(A), cols_of(A)) + 8; }

// --- geqrf: the reflections themselves
// -------------------------------------------------------------------------------------

void infer_geqrf(Call& c) {
  Tensor& A = c.tensor(0);
  check_matrix(c, A, "input");
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
  c.output(with(batch_of(A), {std::min(rows_of(A), cols_of(A))}), A.dtype, A.device);
}
void cpu_geqrf(Call& c) {
  Tensor &A = c.tensor(0), &out = c.out(0), &tau = c.out(1);
  lapack::load();
  const int64_t m = rows_of(A), n = cols_of(A), k = std::min(m, n);
  if (A.numel == 0) return;
  LockRelease lock(A.numel * k);
  visit_matrices(c, A.dtype, [&]<class T>() {
    Matrices<T> from(A, batch_of(A));
    each_matrix(batch_count(A), cost_of(A), [&](int64_t first, int64_t last) {
      lapack::Work<T> work;
      for (int64_t b = first; b < last; ++b) {
        from.read(b, m, n, out.ptr<T>() + b * m * n, m);
        lapack::geqrf(int(m), int(n), out.ptr<T>() + b * m * n, int(m), tau.ptr<T>() + b * k, work);
      }
    });
  });
}

// --- qr
// --------------------------------------------------------------------------------------------------------------------

void infer_qr(Call& c) {
  Tensor& A = c.tensor(0);
  check_matrix(c, A);
  std::string_view mode = c.str(1);
  if (mode != "reduced" && mode != "complete" && mode != "r")
    runtime_error("linalg.qr: mode must be 'reduced', 'complete' or 'r', got '", mode, "'");
  const int64_t m = rows_of(A), n = cols_of(A), k = mode == "complete" ? m : std::min(m, n);
  if (mode == "r") c.output(std::vector<int64_t>{0}, A.dtype, A.device);
  else output_columns(c, batch_of(A), m, k, A.dtype, A.device);
  output_columns(c, batch_of(A), k, n, A.dtype, A.device);
}
void cpu_qr(Call& c) {
  Tensor &A = c.tensor(0), &Q = c.out(0), &R = c.out(1);
  lapack::load();
  const bool wanted = c.str(1) != "r";
  const int64_t m = rows_of(A), n = cols_of(A), few = std::min(m, n), k = rows_of(R), batch = batch_count(A);
  LockRelease lock(A.numel * few + Q.numel * few);
  visit_matrices(c, A.dtype, [&]<class T>() {
    Matrices<T> from(A, batch_of(A));
    each_matrix(batch, 2 * cost_of(A), [&](int64_t first, int64_t last) {
      lapack::Work<T> work;
      std::vector<T> a(size_t(m) * size_t(std::max(n, k))), tau(size_t(few + 1));
      for (int64_t b = first; b < last; ++b) {
        T* r = R.ptr<T>() + b * k * n;
        from.read(b, m, n, a.data(), m);
        if (few) lapack::geqrf(int(m), int(n), a.data(), int(m), tau.data(), work);
        for (int64_t j = 0; j < n; ++j)
          for (int64_t i = 0; i < k; ++i) r[i + j * k] = i <= j ? a[size_t(i + j * m)] : T(0);
        if (!wanted || m * k == 0) continue;
        T* q = Q.ptr<T>() + b * m * k;
        if (!few) {
          std::fill_n(q, m * k, T(0));
          for (int64_t i = 0; i < k; ++i) q[i + i * m] = T(1);
          continue;
        }
        std::copy_n(a.data(), m * std::min(n, k), q);
        lapack::orgqr(int(m), int(k), int(few), q, int(m), tau.data(), work);
      }
    });
  });
}

// --- products with the reflections
// --------------------------------------------------------------------------------------------

void check_tau(const Call& c, const Tensor& A, const Tensor& tau) {
  check_same_dtype(c, A, tau);
  if (tau.ndim != A.ndim - 1 || !std::equal(batch_of(A).begin(), batch_of(A).end(), tau.shape().begin()))
    runtime_error(c.name(), ": tau ", shape_text(tau.shape()), " must have the batch dimensions of input ",
                  shape_text(A.shape()));
  if (tau.size(tau.ndim - 1) > cols_of(A))
    runtime_error(c.name(), ": tau ", shape_text(tau.shape()), " holds more reflections than input ",
                  shape_text(A.shape()), " has columns");
}
void infer_householder(Call& c) {
  Tensor &A = c.tensor(0), &tau = c.tensor(1);
  check_matrix(c, A, "input");
  if (rows_of(A) < cols_of(A)) runtime_error(c.name(), ": input must have at least as many rows as columns, got ",
                                             shape_text(A.shape()));
  check_tau(c, A, tau);
  output_columns(c, batch_of(A), rows_of(A), cols_of(A), A.dtype, A.device);
}
void cpu_householder(Call& c) {
  Tensor &A = c.tensor(0), &out = c.out();
  lapack::load();
  TensorRef tau = contiguous(c.tensor(1));
  const int64_t m = rows_of(A), n = cols_of(A), k = tau->size(tau->ndim - 1);
  if (A.numel == 0) return;
  const char* taus = tau->data;
  LockRelease lock(A.numel * n);
  visit_matrices(c, A.dtype, [&]<class T>() {
    Matrices<T> from(A, batch_of(A));
    each_matrix(batch_count(A), cost_of(A), [&](int64_t first, int64_t last) {
      lapack::Work<T> work;
      for (int64_t b = first; b < last; ++b) {
        T* q = out.ptr<T>() + b * m * n;
        from.read(b, m, n, q, m);
        lapack::orgqr(int(m), int(n), int(k), q, int(m), reinterpret_cast<const T*>(taus) + b * k, work);
      }
    });
  });
}
void infer_ormqr(Call& c) {
  Tensor &A = c.tensor(0), &tau = c.tensor(1), &other = c.tensor(2);
  check_matrix(c, A, "input");
  check_matrix(c, other, "other");
  check_tau(c, A, tau);
  check_same_dtype(c, A, other);
  const bool left = c.boolean(3);
  const int64_t order = left ? rows_of(other) : cols_of(other);
  if (order < tau.size(tau.ndim - 1))
    runtime_error(c.name(), ": other has ", order, left ? " rows" : " columns", ", fewer than tau holds reflections, ",
                  tau.size(tau.ndim - 1));
  if (order != rows_of(A)) runtime_error(c.name(), ": other has ", order, left ? " rows" : " columns", ", input has ",
                                         rows_of(A), " rows; they must be equal");
  if (!std::equal(batch_of(A).begin(), batch_of(A).end(), batch_of(other).begin(), batch_of(other).end()))
    runtime_error(c.name(), ": other ", shape_text(other.shape()), " must have the batch dimensions of input ",
                  shape_text(A.shape()));
  output_columns(c, batch_of(other), rows_of(other), cols_of(other), other.dtype, other.device);
}
void cpu_ormqr(Call& c) {
  Tensor &A = c.tensor(0), &other = c.tensor(2), &out = c.out();
  lapack::load();
  TensorRef tau = contiguous(c.tensor(1));
  const bool left = c.boolean(3), transpose = c.boolean(4);
  const int64_t order = rows_of(A), width = cols_of(A), k = tau->size(tau->ndim - 1), m = rows_of(other),
                n = cols_of(other);
  if (out.numel == 0) return;
  visit_matrices(c, A.dtype, [&]<class T>() {
    Matrices<T> from(A, batch_of(A)), to(other, batch_of(other));
    lapack::Work<T> work;
    std::vector<T> a(size_t(order * std::max<int64_t>(1, width)));
    for (int64_t b = 0; b < batch_count(other); ++b) {
      T* x = out.ptr<T>() + b * m * n;
      from.read(b, order, width, a.data(), order);
      to.read(b, m, n, x, m);
      if (k)
        lapack::ormqr(left ? 'L' : 'R', transpose, int(m), int(n), int(k), a.data(), int(order), tau->ptr<T>() + b * k,
                      x, int(m), work);
    }
  });
}

// --- least squares
// --------------------------------------------------------------------------------------------------------------

enum class Driver : uint8_t { Gels, Gelsy, Gelsd, Gelss };
Driver driver_of(std::string_view s) {
  return s == "gels" ? Driver::Gels : s == "gelsy" ? Driver::Gelsy : s == "gelsd" ? Driver::Gelsd : Driver::Gelss;
}

// A x = b for one matrix after the other, in memory of its own: `b` has max(m, n) rows and takes the solution.
template <class T>
struct LeastSquares {
  using R = lapack::real_t<T>;
  int m, n, nrhs;
  R rcond;
  int few = std::min(m, n), tall = std::max(m, n), info = 0, rank = 0, lwork = -1;
  std::vector<T> a = std::vector<T>(area(m, n)), b = std::vector<T>(size_t(tall) * size_t(std::max(1, nrhs)));
  std::vector<R> s = std::vector<R>(size_t(few));  // singular values, where the driver computes them
  lapack::Work<T> work;
  lapack::Work<R> rwork;
  lapack::Work<int> iwork;

  void solve(Driver driver) {
    rank = 0;
    if (!finite(a.data(), int64_t(m) * n)) {
      std::fill(b.begin(), b.end(), T(NAN));
      std::fill(s.begin(), s.end(), R(NAN));
      return;
    }
    switch (driver) {
      case Driver::Gels: return gels();
      case Driver::Gelsy: return gelsy();
      case Driver::Gelsd: return gelsd();
      case Driver::Gelss: return gelss();
    }
  }
  // run(memory), first with a single number, into which LAPACK writes how much memory it wants
  template <class F>
  void with_memory(F&& run) {
    T query{};
    lwork = -1;
    run(&query);
    lwork = lapack::size_of_work(query);
    run(work.at_least(lwork));
  }
  void gels() {
    static void* const routine = lapack::routine<T>("gels");
    char no = 'N';
    with_memory([&](T* w) {
      lapack::call(routine, &no, &m, &n, &nrhs, a.data(), &m, b.data(), &tall, w, &lwork, &info, lapack::kOne);
    });
  }
  void gelsy() {
    static void* const routine = lapack::routine<T>("gelsy");
    int* columns = iwork.at_least(n);
    std::fill_n(columns, n, 0);
    R* r = rwork.at_least(2 * n);
    with_memory([&](T* w) {
      if constexpr (lapack::kComplex<T>)
        lapack::call(routine, &m, &n, &nrhs, a.data(), &m, b.data(), &tall, columns, &rcond, &rank, w, &lwork, r,
                     &info);
      else
        lapack::call(routine, &m, &n, &nrhs, a.data(), &m, b.data(), &tall, columns, &rcond, &rank, w, &lwork, &info);
    });
  }
  void gelsd() {  // tells the sizes of all its memories at once
    static void* const routine = lapack::routine<T>("gelsd");
    auto run = [&](T* w, R* r, int* i) {
      if constexpr (lapack::kComplex<T>)
        lapack::call(routine, &m, &n, &nrhs, a.data(), &m, b.data(), &tall, s.data(), &rcond, &rank, w, &lwork, r, i,
                     &info);
      else
        lapack::call(routine, &m, &n, &nrhs, a.data(), &m, b.data(), &tall, s.data(), &rcond, &rank, w, &lwork, i,
                     &info);
    };
    T query{};
    R rquery{};
    int iquery = 0;
    lwork = -1;
    run(&query, &rquery, &iquery);
    lwork = lapack::size_of_work(query);
    run(work.at_least(lwork), rwork.at_least(lapack::size_of_work(rquery)), iwork.at_least(std::max(1, iquery)));
  }
  void gelss() {
    static void* const routine = lapack::routine<T>("gelss");
    R* r = rwork.at_least(5 * few);
    with_memory([&](T* w) {
      if constexpr (lapack::kComplex<T>)
        lapack::call(routine, &m, &n, &nrhs, a.data(), &m, b.data(), &tall, s.data(), &rcond, &rank, w, &lwork, r,
                     &info);
      else
        lapack::call(routine, &m, &n, &nrhs, a.data(), &m, b.data(), &tall, s.data(), &rcond, &rank, w, &lwork, &info);
    });
  }
};

// lstsq(A, B, rcond, driver) -> solution [.., n, nrhs], squares of what is left [.., nrhs], rank, singular values
void infer_lstsq(Call& c) {
  Tensor &A = c.tensor(0), &B = c.tensor(1);
  check_matrix(c, A);
  check_matrix(c, B, "B");
  check_same_dtype(c, A, B);
  if (rows_of(A) != rows_of(B)) runtime_error("linalg.lstsq: A ", shape_text(A.shape()), " and B ",
                                              shape_text(B.shape()), " must have equally many rows");
  auto batch = broadcast_shapes(batch_of(A), batch_of(B), c.name());
  const int64_t k = std::min(rows_of(A), cols_of(A));
  Driver driver = driver_of(c.str(3));
  // the solution lies where LAPACK leaves it: above the rest of the right sides
  const int64_t tall = std::max(rows_of(A), cols_of(A));
  std::vector<int64_t> shape = with(batch, {cols_of(A), cols_of(B)}),
                       strides = contiguous_strides(with(batch, {tall, cols_of(B)}));
  strides[strides.size() - 2] = 1;
  strides.back() = std::max<int64_t>(1, tall);
  c.output(shape, A.dtype, A.device, strides);
  c.output(with(batch, {cols_of(B)}), real_of(A.dtype), A.device);
  if (driver == Driver::Gels) c.output(std::vector<int64_t>{0}, DType::Int64, A.device);
  else c.output(batch, DType::Int64, A.device);
  if (driver == Driver::Gelsd || driver == Driver::Gelss) c.output(with(batch, {k}), real_of(A.dtype), A.device);
  else c.output(std::vector<int64_t>{0}, real_of(A.dtype), A.device);
}
void cpu_lstsq(Call& c) {
  Tensor &A = c.tensor(0), &B = c.tensor(1), &X = c.out(0), &left = c.out(1), &rank = c.out(2), &values = c.out(3);
  lapack::load();
  const int64_t m = rows_of(A), n = cols_of(A), nrhs = cols_of(B), few = std::min(m, n), tall = std::max(m, n),
                batch = batch_count(X);
  const Driver driver = driver_of(c.str(3));
  const double rcond = c.real(2);
  if (rank.numel) fill(rank, Scalar(int64_t(0)));
  if (few == 0) {
    fill(X, Scalar(0.0));
    fill(left, Scalar(0.0));
    return;
  }
  {
    LockRelease lock(batch * m * n * few);
    visit_matrices(c, A.dtype, [&]<class T>() {
      using R = lapack::real_t<T>;
      Matrices<T> from(A, batch_of(X)), right(B, batch_of(X));
      each_matrix(batch, 4 * m * n * few, [&](int64_t first, int64_t last) {
        LeastSquares<T> x{int(m), int(n), int(nrhs), R(rcond)};
        for (int64_t k = first; k < last; ++k) {
          from.read(k, m, n, x.a.data(), m);
          std::fill(x.b.begin(), x.b.end(), T(0));
          right.read(k, m, nrhs, x.b.data(), tall);
          x.solve(driver);
          for (int64_t j = 0; j < nrhs; ++j) {
            std::copy_n(x.b.data() + j * tall, n, X.ptr<T>() + (k * nrhs + j) * tall);
            R rest = 0;  // below the solution stands what no combination of columns reaches
            for (int64_t i = n; i < m; ++i) rest += std::norm(x.b[size_t(j * tall + i)]);
            left.ptr<R>()[k * nrhs + j] = rest;
          }
          if (rank.numel) rank.ptr<int64_t>()[k] = x.rank;
          if (values.numel) std::copy_n(x.s.data(), few, values.ptr<R>() + k * few);
        }
      });
    });
  }
}

const Primitives rows{
    {"geqrf", infer_geqrf, cpu_geqrf},
    {"linalg_qr", infer_qr, cpu_qr},
    {"_householder_product", infer_householder, cpu_householder},
    {"_ormqr", infer_ormqr, cpu_ormqr},
    {"_linalg_lstsq", infer_lstsq, cpu_lstsq},
};

}  // namespace
}  // namespace flambeau

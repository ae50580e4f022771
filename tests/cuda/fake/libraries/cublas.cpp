// A cuBLAS for tests: triangular systems, and LU and QR of whole batches, by LAPACK and its companion.
#include "common.h"
#include "lapack.h"

namespace {

struct Handle {
  void* stream = nullptr;
};
int solve(Handle* h, int type, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha,
          const void* a, int64_t lda, void* b, int64_t ldb) {
  const int64_t order = side ? n : m;
  if (transposed || lda < order || ldb < m || load(type, alpha, 0) != Number(1) ||
      !valid(a, size_t(lda * order) * bytes_of(type)) || !valid(b, size_t(ldb * n) * bytes_of(type)))
    return 7;
  return submit(h->stream, [=] {
    char s = side ? 'R' : 'L', u = uplo ? 'U' : 'L', t = 'N', d = unit ? 'U' : 'N';
    int rows = int(m), columns = int(n), step = int(lda), other = int(ldb);
    double one[2] = {0, 0};
    store(type, one, 0, 1);
    lapack(type, "trsm", &s, &u, &t, &d, &rows, &columns, static_cast<void*>(one), a, &step, b, &other);
  });
}

int solve_all(Handle* h, int type, int side, int uplo, int transposed, int unit, int m, int n, const void* alpha,
              const void* const* a, int lda, void* const* b, int ldb, int batch) {
  const size_t size = bytes_of(type), order = size_t(side ? n : m);
  if (transposed || size_t(lda) < order || ldb < m || load(type, alpha, 0) != Number(1) ||
      !valid(a, size_t(batch) * 8) || !valid(b, size_t(batch) * 8))
    return 7;
  return submit(h->stream, [=] {
    char s = side ? 'R' : 'L', u = uplo ? 'U' : 'L', t = 'N', d = unit ? 'U' : 'N';
    int rows = m, columns = n, step = lda, other = ldb;
    double one[2] = {0, 0};
    store(type, one, 0, 1);
    for (int k = 0; k < batch; ++k)
      if (valid(a[k], size_t(lda) * order * size) && valid(b[k], size_t(ldb) * size_t(n) * size))
        lapack(type, "trsm", &s, &u, &t, &d, &rows, &columns, static_cast<void*>(one), a[k], &step, b[k], &other);
  });
}
// Without pivots: no rows are exchanged.
void eliminate(int type, int n, void* a, int lda, int* info) {
  *info = 0;
  for (int64_t k = 0; k < n; ++k) {
    const Number pivot = load(type, a, k + k * lda);
    if (pivot == Number(0) && !*info) *info = int(k + 1);
    for (int64_t i = k + 1; i < n; ++i) {
      const Number f = load(type, a, i + k * lda) / pivot;
      store(type, a, i + k * lda, f);
      for (int64_t j = k + 1; j < n; ++j)
        store(type, a, i + j * lda, load(type, a, i + j * lda) - f * load(type, a, k + j * lda));
    }
  }
}
int factor_all(Handle* h, int type, int n, void* const* matrices, int lda, int* pivots, int* info, int batch) {
  if (lda < n || !valid(matrices, size_t(batch) * 8) || !valid(info, size_t(batch) * 4) ||
      (pivots && !valid(pivots, size_t(batch) * size_t(n) * 4)))
    return 7;
  return submit(h->stream, [=] {
    int order = n, step = lda;
    for (int k = 0; k < batch; ++k)
      if (!valid(matrices[k], size_t(lda) * size_t(n) * bytes_of(type))) info[k] = -3;
      else if (!pivots) eliminate(type, n, matrices[k], lda, info + k);
      else lapack(type, "getrf", &order, &order, matrices[k], &step, pivots + k * n, info + k);
  });
}
int reflect_all(Handle* h, int type, int m, int n, void* const* matrices, int lda, void* const* factors, int* bad,
                int batch) {
  const size_t size = bytes_of(type), few = size_t(m < n ? m : n);
  if (lda < m || !bad || !valid(matrices, size_t(batch) * 8) || !valid(factors, size_t(batch) * 8)) return 7;
  *bad = 0;
  return submit(h->stream, [=] {
    int rows = m, columns = n, step = lda, length = 64 * (m + n), info = 0;
    std::vector<char> work(size_t(length) * 16);
    for (int k = 0; k < batch; ++k)
      if (valid(matrices[k], size_t(lda) * size_t(n) * size) && valid(factors[k], few * size))
        lapack(type, "geqrf", &rows, &columns, matrices[k], &step, factors[k], work.data(), &length, &info);
  });
}

}  // namespace

API int cublasCreate_v2(Handle** h) { ENTER("create"); *h = new Handle; return 0; }
API int cublasSetStream_v2(Handle* h, void* s) { ENTER("set_stream"); h->stream = s; return 0; }
API const char* cublasGetStatusName(int s) {
  return s == 7 ? "CUBLAS_STATUS_INVALID_VALUE" : s == 13 ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_?";
}
#define TRSM(NAME, TYPE)                                                                                      \
  API int cublas##NAME##trsm_v2_64(Handle* h, int side, int uplo, int t, int unit, int64_t m, int64_t n,     \
                                   const void* alpha, const void* a, int64_t lda, void* b, int64_t ldb) {    \
    ENTER("trsm");                                                                                           \
    return solve(h, TYPE, side, uplo, t, unit, m, n, alpha, a, lda, b, ldb);                                 \
  }
#define BATCHED(NAME, TYPE)                                                                                          \
  API int cublas##NAME##trsmBatched(Handle* h, int side, int uplo, int t, int unit, int m, int n,                   \
                                    const void* alpha, const void* const* a, int lda, void* const* b, int ldb,      \
                                    int batch) {                                                                    \
    ENTER("trsm_batched");                                                                                          \
    return solve_all(h, TYPE, side, uplo, t, unit, m, n, alpha, a, lda, b, ldb, batch);                             \
  }                                                                                                                 \
  API int cublas##NAME##getrfBatched(Handle* h, int n, void* const* matrices, int lda, int* pivots, int* info,      \
                                     int batch) {                                                                   \
    ENTER("getrf_batched");                                                                                         \
    return factor_all(h, TYPE, n, matrices, lda, pivots, info, batch);                                              \
  }                                                                                                                 \
  API int cublas##NAME##geqrfBatched(Handle* h, int m, int n, void* const* matrices, int lda, void* const* factors, \
                                     int* bad, int batch) {                                                         \
    ENTER("geqrf_batched");                                                                                         \
    return reflect_all(h, TYPE, m, n, matrices, lda, factors, bad, batch);                                          \
  }
BATCHED(S, 0)
BATCHED(D, 1)
BATCHED(C, 4)
BATCHED(Z, 5)
TRSM(S, 0)
TRSM(D, 1)
TRSM(C, 4)
TRSM(Z, 5)

// A cuBLAS for tests: triangular systems, by LAPACK's companion.
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
TRSM(S, 0)
TRSM(D, 1)
TRSM(C, 4)
TRSM(Z, 5)

// A cuBLAS for tests: triangular systems, and LU and QR of whole batches, by LAPACK and its companion.
#include "common.h"
#include "lapack.h"

namespace {

struct Handle : OfDevice {
  void *stream = nullptr, *workspace = nullptr;
  size_t room = 0;
};

// Who works in which memory: streams that are at work at the same time must not share any.
struct Busy {
  void* stream = nullptr;
  long calls = 0;
};
std::map<void*, Busy>& busy() {
  static auto* all = new std::map<void*, Busy>;
  return *all;
}
long shared = 0;

int submit_in_workspace(Handle* h, std::function<void()> work) {
  if (!h->workspace || !valid(h->workspace, h->room)) return 14;
  Busy& b = busy()[h->workspace];
  if (b.calls && b.stream != h->stream) ++shared;
  b.stream = h->stream;
  ++b.calls;
  return submit(h, h->stream, [work = std::move(work), place = h->workspace] {
    work();
    --busy()[place].calls;
  });
}
int solve(Handle* h, int type, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha,
          const void* a, int64_t lda, void* b, int64_t ldb) {
  const int64_t order = side ? n : m;
  if (transposed || lda < order || ldb < m || load(type, alpha, 0) != Number(1) ||
      !valid(a, size_t(lda * order) * bytes_of(type)) || !valid(b, size_t(ldb * n) * bytes_of(type)))
    return 7;
  return submit_in_workspace(h, [=] {
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
  return submit_in_workspace(h, [=] {
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
  return submit_in_workspace(h, [=] {
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
  return submit_in_workspace(h, [=] {
    int rows = m, columns = n, step = lda, length = 64 * (m + n), info = 0;
    std::vector<char> work(size_t(length) * 16);
    for (int k = 0; k < batch; ++k)
      if (valid(matrices[k], size_t(lda) * size_t(n) * size) && valid(factors[k], few * size))
        lapack(type, "geqrf", &rows, &columns, matrices[k], &step, factors[k], work.data(), &length, &info);
  });
}

}  // namespace

#ifndef OLDER
// Products of groups: sizes and steps lie in the CPU's memory, the addresses of the matrices in the device's.
API int cublasGemmGroupedBatchedEx_64(Handle* h, const int* ta, const int* tb, const int64_t* m, const int64_t* n,
                                      const int64_t* k, const void* alphas, const void* const* a, int a_type,
                                      const int64_t* lda, const void* const* b, int b_type, const int64_t* ldb,
                                      const void* betas, void* const* c, int c_type, const int64_t* ldc,
                                      int64_t groups, const int64_t* products, int computes) {
  ENTER("grouped");
  const int scale = a_type == 1 ? 1 : 0;
  if (a_type != b_type || a_type != c_type) return 7;
  if ((a_type == 1) != (computes == 70) || (computes == 77 && a_type != 0)) return 15;
  for (const void* const* list : {a, b, static_cast<const void* const*>(c)})
    if (!valid(list, size_t(groups) * 8)) return 7;
  struct Product {
    bool ta, tb;
    int64_t m, n, k, lda, ldb, ldc;
  };
  std::vector<Product> all;
  for (int64_t g = 0; g < groups; ++g) {
    const bool steps = lda[g] >= (ta[g] ? k[g] : m[g]) && ldb[g] >= (tb[g] ? n[g] : k[g]) && ldc[g] >= m[g];
    if (!steps || m[g] < 1 || n[g] < 1 || k[g] < 1 || products[g] != 1 || load(scale, alphas, g) != Number(1) ||
        load(scale, betas, g) != Number(0))
      return 7;
    all.push_back({ta[g] != 0, tb[g] != 0, m[g], n[g], k[g], lda[g], ldb[g], ldc[g]});
  }
  return submit_in_workspace(h, [=] {
    const size_t size = bytes_of(a_type);
    for (size_t g = 0; g < all.size(); ++g) {
      const Product& p = all[g];
      const int64_t wide_a = p.ta ? p.m : p.k, high_a = p.ta ? p.k : p.m;
      const int64_t wide_b = p.tb ? p.k : p.n, high_b = p.tb ? p.n : p.k;
      if (!valid(a[g], size_t((wide_a - 1) * p.lda + high_a) * size) ||
          !valid(b[g], size_t((wide_b - 1) * p.ldb + high_b) * size) ||
          !valid(c[g], size_t((p.n - 1) * p.ldc + p.m) * size))
        std::abort();
      for (int64_t j = 0; j < p.n; ++j)
        for (int64_t i = 0; i < p.m; ++i) {
          Number sum = 0;
          for (int64_t e = 0; e < p.k; ++e)
            sum += load(a_type, a[g], p.ta ? e + i * p.lda : i + e * p.lda) *
                   load(a_type, b[g], p.tb ? j + e * p.ldb : e + j * p.ldb);
          store(a_type, c[g], i + j * p.ldc, sum);
        }
    }
  });
}
#endif

API int cublasCreate_v2(Handle** h) { ENTER("create"); *h = new Handle; return 0; }
API int cublasSetStream_v2(Handle* h, void* s) {
  ENTER("set_stream");
  h->stream = s;
  h->workspace = nullptr;  // back to memory of its own, which all streams share
  return 0;
}
API int cublasSetWorkspace_v2(Handle* h, void* p, size_t bytes) {
  ENTER("set_workspace");
  h->workspace = p;
  h->room = bytes;
  return valid(p, bytes) && reinterpret_cast<uintptr_t>(p) % 256 == 0 ? 0 : 7;
}
API long fake_shared() { return shared; }  // calls that worked in memory of another stream at the same time
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

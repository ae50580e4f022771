// A cuSOLVER for tests: its calls go to LAPACK, on the fake driver's memory.
#include <algorithm>
#include <utility>

#include "common.h"
#include "lapack.h"

namespace {

enum { kInvalid = 3 };
constexpr size_t kRoom = 256, kHostRoom = 64;
struct Handle : OfDevice {
  void* stream = nullptr;
  std::set<void*> streams;  // all that it has followed
};
long shared = 0;
struct Settings {};
struct Turns {};
struct SvdTurns {};

// The next decomposition by iteration says that it has not converged: what tests ask for.
int& unconverged() {
  static int info = 0;
  return info;
}

// How many matrices that are not finite came to what iterates: the real library answers with an error, or not at all.
long endless = 0;
void look(int type, int64_t m, int64_t n, const void* a, int64_t lda) {
  for (int64_t k = 0; k < m * n; ++k) {
    const Number v = load(type, a, k / m * lda + k % m);
    if (!std::isfinite(v.real()) || !std::isfinite(v.imag())) {
      ++endless;
      return;
    }
  }
}

int sizes(size_t* device, size_t* host) {
  *device = kRoom;
  *host = kHostRoom;
  return 0;
}
bool rooms(const void* device, size_t n, const void* host, size_t m) {
  return n == kRoom && m == kHostRoom && host && valid(device, n);
}

}  // namespace

API void fake_unconverged(int info) { unconverged() = info; }
API long fake_endless() { return endless; }
API int cusolverDnCreate(Handle** h) { ENTER("create"); *h = new Handle; return 0; }
API int cusolverDnSetStream(Handle* h, void* s) {
  ENTER("set_stream");
  if (h->streams.insert(s).second && h->streams.size() > 1) ++shared;
  h->stream = s;
  return 0;
}
API long fake_shared() { return shared; }  // how often a handle, which has memory of its own, changed to a new stream
API int cusolverDnCreateParams(Settings** s) { ENTER("settings"); *s = new Settings; return 0; }
API int cusolverDnCreateSyevjInfo(Turns** t) { ENTER("settings"); *t = make(new Turns); return 0; }
API int cusolverDnCreateGesvdjInfo(SvdTurns** t) { ENTER("settings"); *t = make(new SvdTurns); return 0; }
API int cusolverDnXpotrf_bufferSize(Handle*, Settings*, int, int64_t, int, const void*, int64_t, int, size_t* device,
                                    size_t* host) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXpotrf(Handle* h, Settings*, int uplo, int64_t n, int type, void* a, int64_t lda, int computes,
                         void* room, size_t device, void* host, size_t host_bytes, int* info) {
  ENTER("potrf");
  if (lda < n || computes != type || !rooms(room, device, host, host_bytes) ||
      !valid(a, size_t(lda * n) * bytes_of(type)) || !valid(info, 4))
    return kInvalid;
  return submit(h, h->stream, [=] {
    char triangle = uplo ? 'U' : 'L';
    int size = int(n), step = int(lda);
    lapack(type, "potrf", &triangle, &size, a, &step, info);
  });
}
API int cusolverDnXgetrf_bufferSize(Handle*, Settings*, int64_t, int64_t, int, const void*, int64_t, int,
                                    size_t* device, size_t* host) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXgetrf(Handle* h, Settings*, int64_t m, int64_t n, int type, void* a, int64_t lda, int64_t* pivots,
                         int computes, void* room, size_t device, void* host, size_t host_bytes, int* info) {
  ENTER("getrf");
  if (lda < m || computes != type || !rooms(room, device, host, host_bytes) ||
      !valid(a, size_t(lda * n) * bytes_of(type)) || !valid(info, 4) ||
      (pivots && !valid(pivots, size_t(std::min(m, n)) * 8)))
    return kInvalid;
  return submit(h, h->stream, [=] {
    int rows = int(m), columns = int(n), step = int(lda);
    if (pivots) {
      std::vector<int> found(size_t(std::min(m, n)));
      lapack(type, "getrf", &rows, &columns, a, &step, found.data(), info);
      for (size_t k = 0; k < found.size(); ++k) pivots[k] = found[k];
      return;
    }
    *info = 0;
    for (int64_t k = 0; k < std::min(m, n); ++k) {
      const Number pivot = load(type, a, k + k * lda);
      if (pivot == Number(0) && !*info) *info = int(k + 1);
      for (int64_t i = k + 1; i < m; ++i) {
        const Number f = load(type, a, i + k * lda) / pivot;
        store(type, a, i + k * lda, f);
        for (int64_t j = k + 1; j < n; ++j)
          store(type, a, i + j * lda, load(type, a, i + j * lda) - f * load(type, a, k + j * lda));
      }
    }
  });
}

namespace {

int real_of(int type) { return type == 4 ? 0 : type == 5 ? 1 : type; }
// Vectors of length one are as right with other signs than LAPACK's.
void negate(int type, int64_t count, void* x, int64_t step = 1) {
  for (int64_t k = 0; k < count; ++k) store(type, x, k * step, -load(type, x, k * step));
}
void eigh(int type, int vectors, int uplo, int n, void* a, int lda, void* values, int* info) {
  look(type, n, n, a, lda);
  char job = vectors ? 'V' : 'N', triangle = uplo ? 'U' : 'L';
  int length = n * n + 64 * n + 64;
  std::vector<char> work(size_t(length) * 16), more(size_t(3 * n + 1) * 8);
  if (type < 2) lapack(type, "syev", &job, &triangle, &n, a, &lda, values, work.data(), &length, info);
  else lapack(type, "heev", &job, &triangle, &n, a, &lda, values, work.data(), &length, more.data(), info);
  if (vectors) negate(type, n, a);
  if (const int told = std::exchange(unconverged(), 0)) *info = told;
}
void svd(int type, char ju, char jv, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v, int ldv,
         int* info) {
  look(type, m, n, a, lda);
  int length = 8 * (m + n) + 256;
  std::vector<char> work(size_t(length) * 16), more(size_t(5 * n + 1) * 8);
  if (type < 2)
    lapack(type, "gesvd", &ju, &jv, &m, &n, a, &lda, s, u, &ldu, v, &ldv, work.data(), &length, info);
  else
    lapack(type, "gesvd", &ju, &jv, &m, &n, a, &lda, s, u, &ldu, v, &ldv, work.data(), &length, more.data(), info);
  if (ju != 'N') negate(type, m, u), negate(type, n, v, ldv);
  if (const int told = std::exchange(unconverged(), 0)) *info = told;
}

}  // namespace

API int cusolverDnXsyevd_bufferSize(Handle*, Settings*, int, int, int64_t, int, const void*, int64_t, int, const void*,
                                    int, size_t* device, size_t* host) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXsyevd(Handle* h, Settings*, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda,
                         int values_type, void* values, int computes, void* room, size_t device, void* host,
                         size_t host_bytes, int* info) {
  ENTER("syevd");
  if (lda < n || computes != type || values_type != real_of(type) ||
      !rooms(room, device, host, host_bytes) || !valid(a, size_t(lda * n) * bytes_of(type)) ||
      !valid(values, size_t(n) * bytes_of(values_type)) || !valid(info, 4))
    return kInvalid;
  return submit(h, h->stream, [=] { eigh(type, vectors, uplo, int(n), a, int(lda), values, info); });
}
API int cusolverDnXgesvd_bufferSize(Handle*, Settings*, signed char, signed char, int64_t m, int64_t n, int,
                                    const void*, int64_t, int, const void*, int, const void*, int64_t, int, const void*,
                                    int64_t, int, size_t* device, size_t* host) {
  ENTER("room");
  return m < n ? kInvalid : sizes(device, host);
}
API int cusolverDnXgesvd(Handle* h, Settings*, signed char u_job, signed char v_job, int64_t m, int64_t n, int type,
                         void* a, int64_t lda, int, void* s, int u_type, void* u, int64_t ldu, int v_type, void* v,
                         int64_t ldv, int, void* room, size_t device, void* host, size_t host_bytes, int* info) {
  ENTER("gesvd");
  const int real = real_of(type);
  const int64_t u_columns = u_job == 'A' ? m : n;
  if (m < n || u_type != type || v_type != type || !rooms(room, device, host, host_bytes) || !valid(info, 4) ||
      !valid(a, size_t(lda * n) * bytes_of(type)) || !valid(s, size_t(n) * bytes_of(real)) ||
      (u_job != 'N' && (!valid(u, size_t(ldu * u_columns) * bytes_of(type)) ||
                        !valid(v, size_t(ldv * n) * bytes_of(type)))))
    return kInvalid;
  return submit(h, h->stream, [=] {
    svd(type, char(u_job), char(v_job), int(m), int(n), a, int(lda), s, u, int(ldu), v, int(ldv), info);
  });
}

// --- reflections, LDL, eigenvalues of any matrix ---------------------------------------------------------------------

API int cusolverDnXgeqrf_bufferSize(Handle*, Settings*, int64_t, int64_t, int, const void*, int64_t, int, const void*,
                                    int, size_t* device, size_t* host) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXgeqrf(Handle* h, Settings*, int64_t m, int64_t n, int type, void* a, int64_t lda, int tau_type,
                         void* tau, int computes, void* room, size_t device, void* host, size_t host_bytes, int* info) {
  ENTER("geqrf");
  if (lda < m || tau_type != type || computes != type || !rooms(room, device, host, host_bytes) || !valid(info, 4) ||
      !valid(a, size_t(lda * n) * bytes_of(type)) || !valid(tau, size_t(std::min(m, n)) * bytes_of(type)))
    return kInvalid;
  return submit(h, h->stream, [=] {
    int rows = int(m), columns = int(n), step = int(lda), length = int(64 * (m + n));
    std::vector<char> work(size_t(length) * 16);
    lapack(type, "geqrf", &rows, &columns, a, &step, tau, work.data(), &length, info);
  });
}
API int cusolverDnXsytrs_bufferSize(Handle*, int, int64_t, int64_t, int, const void*, int64_t, const int64_t*, int,
                                    void*, int64_t, size_t* device, size_t* host) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXsytrs(Handle* h, int uplo, int64_t n, int64_t columns, int type, const void* a, int64_t lda,
                         const int64_t* pivots, int b_type, void* b, int64_t ldb, void* room, size_t device, void* host,
                         size_t host_bytes, int* info) {
  ENTER("sytrs");
  if (uplo || lda < n || ldb < n || b_type != type || !rooms(room, device, host, host_bytes) || !valid(info, 4) ||
      !valid(a, size_t(lda * n) * bytes_of(type)) || !valid(pivots, size_t(n) * 8) ||
      !valid(b, size_t(ldb * columns) * bytes_of(type)))
    return kInvalid;
  return submit(h, h->stream, [=] {
    char triangle = 'L';
    int order = int(n), width = int(columns), step = int(lda), other = int(ldb);
    std::vector<int> narrow(pivots, pivots + n);
    lapack(type, "sytrs", &triangle, &order, &width, a, &step, narrow.data(), b, &other, info);
  });
}
#ifndef OLDER
API int cusolverDnXgeev_bufferSize(Handle*, Settings*, int, int, int64_t, int, const void*, int64_t, int, const void*,
                                   int, const void*, int64_t, int, const void*, int64_t, int, size_t* device,
                                   size_t* host) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXgeev(Handle* h, Settings*, int left, int right, int64_t n, int type, void* a, int64_t lda,
                        int values_type, void* values, int, void*, int64_t, int right_type, void* vectors, int64_t ldr,
                        int computes, void* room, size_t device, void* host, size_t host_bytes, int* info) {
  ENTER("geev");
  const int wide = type == 0 || type == 4 ? 4 : 5;
  if (left || lda < n || values_type != wide || right_type != type || computes != type || !valid(info, 4) ||
      !rooms(room, device, host, host_bytes) || !valid(a, size_t(lda * n) * bytes_of(type)) ||
      !valid(values, size_t(n) * bytes_of(wide)) || (right && !valid(vectors, size_t(ldr * n) * bytes_of(type))))
    return kInvalid;
  return submit(h, h->stream, [=] {
    look(type, n, n, a, lda);
    char none = 'N', job = right ? 'V' : 'N';
    int order = int(n), step = int(lda), one = 1, other = int(ldr), length = int(64 * n + 64);
    const int64_t size = type == 0 ? 4 : 8;
    std::vector<char> work(size_t(length) * 16), re(size_t(n) * 16), im(size_t(n) * 16);
    if (type >= 2)
      lapack(type, "geev", &none, &job, &order, a, &step, values, nullptr, &one, vectors, &other, work.data(), &length,
             re.data(), info);
    else
      lapack(type, "geev", &none, &job, &order, a, &step, re.data(), im.data(), nullptr, &one, vectors, &other,
             work.data(), &length, info);
    for (int64_t k = 0; right && k < n; ++k) negate(type, n, static_cast<char*>(vectors) + k * ldr * int64_t(bytes_of(type)));
    if (type >= 2) return;
    for (int64_t k = 0; k < n; ++k) {
      std::memcpy(static_cast<char*>(values) + 2 * k * size, re.data() + k * size, size_t(size));
      std::memcpy(static_cast<char*>(values) + (2 * k + 1) * size, im.data() + k * size, size_t(size));
    }
  });
}

API int cusolverDnXsyevBatched_bufferSize(Handle*, Settings*, int, int, int64_t, int, const void*, int64_t, int,
                                          const void*, int, size_t* device, size_t* host, int64_t) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXsyevBatched(Handle* h, Settings*, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda,
                               int values_type, void* values, int computes, void* room, size_t device, void* host,
                               size_t host_bytes, int* info, int64_t batch) {
  ENTER("syev_batched");
  const size_t size = bytes_of(type), real = bytes_of(real_of(type)), each = size_t(lda * n);
  if (lda < n || batch > 32000 || computes != type || values_type != real_of(type) ||
      !rooms(room, device, host, host_bytes) || !valid(a, each * size * size_t(batch)) ||
      !valid(values, size_t(n * batch) * real) || !valid(info, size_t(batch) * 4))
    return kInvalid;
  return submit(h, h->stream, [=] {
    for (size_t k = 0; k < size_t(batch); ++k)
      eigh(type, vectors, uplo, int(n), static_cast<char*>(a) + k * each * size, int(lda),
           static_cast<char*>(values) + k * size_t(n) * real, info + k);
  });
}
#endif

namespace {

constexpr int kLength = 100;  // elements that the older functions ask for

int make_q(Handle* h, int type, int m, int n, int k, void* a, int lda, const void* tau, void* room, int length,
           int* info) {
  if (n > m || k > n || lda < m || length != kLength || !valid(room, size_t(length) * bytes_of(type)) ||
      !valid(info, 4) || !valid(a, size_t(lda) * size_t(n) * bytes_of(type)) ||
      !valid(tau, size_t(k) * bytes_of(type)))
    return kInvalid;
  return submit(h, h->stream, [=] {
    int rows = m, columns = n, taken = k, step = lda, size = 64 * (m + n);
    std::vector<char> work(size_t(size) * 16);
    lapack(type, type < 2 ? "orgqr" : "ungqr", &rows, &columns, &taken, a, &step, tau, work.data(), &size, info);
  });
}
int multiply_q(Handle* h, int type, int side, int transposed, int m, int n, int k, const void* a, int lda,
               const void* tau, void* c, int ldc, void* room, int length, int* info) {
  const int order = side ? n : m;
  if (k > order || lda < order || ldc < m || transposed == (type < 2 ? 2 : 1) || length != kLength ||
      !valid(room, size_t(length) * bytes_of(type)) || !valid(info, 4) ||
      !valid(a, size_t(lda) * size_t(k) * bytes_of(type)) || !valid(tau, size_t(k) * bytes_of(type)) ||
      !valid(c, size_t(ldc) * size_t(n) * bytes_of(type)))
    return kInvalid;
  return submit(h, h->stream, [=] {
    char s = side ? 'R' : 'L', t = transposed == 0 ? 'N' : transposed == 1 ? 'T' : 'C';
    int rows = m, columns = n, taken = k, step = lda, other = ldc, size = 64 * (m + n);
    std::vector<char> work(size_t(size) * 16);
    lapack(type, type < 2 ? "ormqr" : "unmqr", &s, &t, &rows, &columns, &taken, a, &step, tau, c, &other, work.data(),
           &size, info);
  });
}
int factor_symmetric(Handle* h, int type, int uplo, int n, void* a, int lda, int* pivots, void* room, int length,
                     int* info) {
  if (uplo || lda < n || length != kLength || !valid(room, size_t(length) * bytes_of(type)) || !valid(info, 4) ||
      !valid(pivots, size_t(n) * 4) || !valid(a, size_t(lda) * size_t(n) * bytes_of(type)))
    return kInvalid;
  return submit(h, h->stream, [=] {
    char triangle = 'L';
    int order = n, step = lda, size = 64 * n + 64;
    std::vector<char> work(size_t(size) * 16);
    lapack(type, "sytrf", &triangle, &order, a, &step, pivots, work.data(), &size, info);
  });
}
int factor_all(Handle* h, int type, int uplo, int n, void** matrices, int lda, int* info, int batch) {
  if (lda < n || !valid(matrices, size_t(batch) * 8) || !valid(info, size_t(batch) * 4)) return kInvalid;
  return submit(h, h->stream, [=] {
    char triangle = uplo ? 'U' : 'L';
    int order = n, step = lda;
    for (int k = 0; k < batch; ++k)
      if (!valid(matrices[k], size_t(lda) * size_t(n) * bytes_of(type))) info[k] = -4;
      else lapack(type, "potrf", &triangle, &order, matrices[k], &step, info + k);
  });
}
int rotate(Handle* h, int type, int vectors, int uplo, int n, void* a, int lda, void* values, void* room, int length,
           int* info, Turns* turns, int batch) {
  const size_t size = bytes_of(type), real = bytes_of(real_of(type)), each = size_t(lda) * size_t(n);
  if (lda < n || n > 32 || batch > 32000 || length != kLength || !known(turns) || !valid(room, kLength * size) ||
      !valid(a, each * size * size_t(batch)) || !valid(values, size_t(n) * size_t(batch) * real) ||
      !valid(info, size_t(batch) * 4))
    return kInvalid;
  return submit(h, h->stream, [=] {
    for (size_t k = 0; k < size_t(batch); ++k)
      eigh(type, vectors, uplo, n, static_cast<char*>(a) + k * each * size, lda,
           static_cast<char*>(values) + k * size_t(n) * real, info + k);
  });
}
// V comes as it is, not as its adjoint. Without vectors too, the library works in the memory of U and V.
int rotate_both(Handle* h, int type, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v,
                int ldv, void* room, int length, int* info, SvdTurns* turns, int batch) {
  const size_t size = bytes_of(type), real = bytes_of(real_of(type)), many = size_t(batch);
  if (m > 32 || n > 32 || m < n || lda < m || ldu < m || ldv < n || length != kLength || !known(turns) ||
      !valid(room, kLength * size) || !valid(a, size_t(lda * n) * size * many) || !valid(info, many * 4) ||
      !valid(s, size_t(n) * real * many) || !valid(u, size_t(ldu * m) * size * many) ||
      !valid(v, size_t(ldv * n) * size * many))
    return kInvalid;
  return submit(h, h->stream, [=] {
    std::memset(u, 0xff, size_t(ldu * m) * size * many);
    std::memset(v, 0xff, size_t(ldv * n) * size * many);
    const char job = vectors ? 'A' : 'N';
    std::vector<char> adjoint(size_t(n * n) * size);
    for (size_t k = 0; k < many; ++k) {
      svd(type, job, job, m, n, static_cast<char*>(a) + k * size_t(lda * n) * size, lda,
          static_cast<char*>(s) + k * size_t(n) * real, static_cast<char*>(u) + k * size_t(ldu * m) * size, ldu,
          adjoint.data(), n, info + k);
      char* own = static_cast<char*>(v) + k * size_t(ldv * n) * size;
      for (int i = 0; vectors && i < n; ++i)
        for (int j = 0; j < n; ++j) store(type, own, i + j * ldv, std::conj(load(type, adjoint.data(), j + i * n)));
    }
  });
}
int length_of(int* length) {
  *length = kLength;
  return 0;
}

}  // namespace

#define OF_TYPE(L, O, E, TYPE)                                                                                         \
  API int cusolverDn##L##O##gqr_bufferSize(Handle*, int, int, int, const void*, int, const void*, int* length) {      \
    ENTER("room");                                                                                                    \
    return length_of(length);                                                                                         \
  }                                                                                                                   \
  API int cusolverDn##L##O##gqr(Handle* h, int m, int n, int k, void* a, int lda, const void* tau, void* room,        \
                                int length, int* info) {                                                              \
    ENTER("orgqr");                                                                                                   \
    return make_q(h, TYPE, m, n, k, a, lda, tau, room, length, info);                                                 \
  }                                                                                                                   \
  API int cusolverDn##L##O##mqr_bufferSize(Handle*, int, int, int, int, int, const void*, int, const void*,           \
                                           const void*, int, int* length) {                                           \
    ENTER("room");                                                                                                    \
    return length_of(length);                                                                                         \
  }                                                                                                                   \
  API int cusolverDn##L##O##mqr(Handle* h, int side, int transposed, int m, int n, int k, const void* a, int lda,     \
                                const void* tau, void* c, int ldc, void* room, int length, int* info) {               \
    ENTER("ormqr");                                                                                                   \
    return multiply_q(h, TYPE, side, transposed, m, n, k, a, lda, tau, c, ldc, room, length, info);                   \
  }                                                                                                                   \
  API int cusolverDn##L##sytrf_bufferSize(Handle*, int, void*, int, int* length) {                                    \
    ENTER("room");                                                                                                    \
    return length_of(length);                                                                                         \
  }                                                                                                                   \
  API int cusolverDn##L##sytrf(Handle* h, int uplo, int n, void* a, int lda, int* pivots, void* room, int length,     \
                               int* info) {                                                                           \
    ENTER("sytrf");                                                                                                   \
    return factor_symmetric(h, TYPE, uplo, n, a, lda, pivots, room, length, info);                                    \
  }                                                                                                                   \
  API int cusolverDn##L##potrfBatched(Handle* h, int uplo, int n, void** matrices, int lda, int* info, int batch) {   \
    ENTER("potrf_batched");                                                                                           \
    return factor_all(h, TYPE, uplo, n, matrices, lda, info, batch);                                                  \
  }                                                                                                                   \
  API int cusolverDn##L##E##evjBatched_bufferSize(Handle*, int, int, int, const void*, int, const void*, int* length, \
                                                  Turns*, int) {                                                      \
    ENTER("room");                                                                                                    \
    return length_of(length);                                                                                         \
  }                                                                                                                   \
  API int cusolverDn##L##E##evjBatched(Handle* h, int vectors, int uplo, int n, void* a, int lda, void* values,       \
                                       void* room, int length, int* info, Turns* turns, int batch) {                  \
    ENTER("syevj_batched");                                                                                           \
    return rotate(h, TYPE, vectors, uplo, n, a, lda, values, room, length, info, turns, batch);                       \
  }                                                                                                                   \
  API int cusolverDn##L##gesvdjBatched_bufferSize(Handle*, int, int, int, const void*, int, const void*, const void*, \
                                                  int, const void*, int, int* length, SvdTurns*, int) {               \
    ENTER("room");                                                                                                    \
    return length_of(length);                                                                                         \
  }                                                                                                                   \
  API int cusolverDn##L##gesvdjBatched(Handle* h, int vectors, int m, int n, void* a, int lda, void* s, void* u,      \
                                       int ldu, void* v, int ldv, void* room, int length, int* info, SvdTurns* turns, \
                                       int batch) {                                                                   \
    ENTER("gesvdj_batched");                                                                                          \
    return rotate_both(h, TYPE, vectors, m, n, a, lda, s, u, ldu, v, ldv, room, length, info, turns, batch);          \
  }
OF_TYPE(S, or, sy, 0)
OF_TYPE(D, or, sy, 1)
OF_TYPE(C, un, he, 4)
OF_TYPE(Z, un, he, 5)

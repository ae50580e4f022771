// A cuSOLVER for tests: its calls go to LAPACK, on the fake driver's memory.
#include <algorithm>

#include "common.h"
#include "lapack.h"

namespace {

enum { kInvalid = 3 };
constexpr size_t kRoom = 256, kHostRoom = 64;
struct Handle {
  void* stream = nullptr;
};
struct Settings {};

int sizes(size_t* device, size_t* host) {
  *device = kRoom;
  *host = kHostRoom;
  return 0;
}
bool rooms(const void* device, size_t n, const void* host, size_t m) {
  return n == kRoom && m == kHostRoom && host && valid(device, n);
}

}  // namespace

API int cusolverDnCreate(Handle** h) { ENTER("create"); *h = new Handle; return 0; }
API int cusolverDnSetStream(Handle* h, void* s) { ENTER("set_stream"); h->stream = s; return 0; }
API int cusolverDnCreateParams(Settings** s) { ENTER("settings"); *s = new Settings; return 0; }
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
  return submit(h->stream, [=] {
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
  return submit(h->stream, [=] {
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
API int cusolverDnXsyevd_bufferSize(Handle*, Settings*, int, int, int64_t, int, const void*, int64_t, int, const void*,
                                    int, size_t* device, size_t* host) {
  ENTER("room");
  return sizes(device, host);
}
API int cusolverDnXsyevd(Handle* h, Settings*, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda,
                         int values_type, void* values, int computes, void* room, size_t device, void* host,
                         size_t host_bytes, int* info) {
  ENTER("syevd");
  if (lda < n || computes != type || values_type != (type == 4 ? 0 : type == 5 ? 1 : type) ||
      !rooms(room, device, host, host_bytes) || !valid(a, size_t(lda * n) * bytes_of(type)) ||
      !valid(values, size_t(n) * bytes_of(values_type)) || !valid(info, 4))
    return kInvalid;
  return submit(h->stream, [=] {
    char job = vectors ? 'V' : 'N', triangle = uplo ? 'U' : 'L';
    int size = int(n), step = int(lda), length = int(n * n + 64 * n + 64);
    std::vector<char> work(size_t(length) * 16), more(size_t(3 * n + 1) * 8);
    if (type < 2) lapack(type, "syev", &job, &triangle, &size, a, &step, values, work.data(), &length, info);
    else lapack(type, "heev", &job, &triangle, &size, a, &step, values, work.data(), &length, more.data(), info);
  });
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
  const int real = type == 4 ? 0 : type == 5 ? 1 : type;
  const int64_t u_columns = u_job == 'A' ? m : n;
  if (m < n || u_type != type || v_type != type || !rooms(room, device, host, host_bytes) || !valid(info, 4) ||
      !valid(a, size_t(lda * n) * bytes_of(type)) || !valid(s, size_t(n) * bytes_of(real)) ||
      (u_job != 'N' && (!valid(u, size_t(ldu * u_columns) * bytes_of(type)) ||
                        !valid(v, size_t(ldv * n) * bytes_of(type)))))
    return kInvalid;
  return submit(h->stream, [=] {
    char ju = char(u_job), jv = char(v_job);
    int rows = int(m), columns = int(n), step = int(lda), su = int(ldu), sv = int(ldv), length = int(8 * (m + n) + 256);
    std::vector<char> work(size_t(length) * 16), more(size_t(5 * n + 1) * 8);
    if (type < 2)
      lapack(type, "gesvd", &ju, &jv, &rows, &columns, a, &step, s, u, &su, v, &sv, work.data(), &length, info);
    else
      lapack(type, "gesvd", &ju, &jv, &rows, &columns, a, &step, s, u, &su, v, &sv, work.data(), &length, more.data(),
             info);
  });
}

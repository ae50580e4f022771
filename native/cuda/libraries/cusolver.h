// cuSOLVER: its functions, its handles and its errors, for the calls of cusolver.cpp, cusolver_factors.cpp and
// cusolver_batches.cpp. It knows matrices by columns.
#pragma once
#include "calls.h"
#include "handles.h"

namespace flambeau::cuda::cusolver {

using Status = int;
struct Handle;
struct Settings;

// Those with an X in their names are told the dtype; others come once for each (s, d, c, z).
// clang-format off
#define FLAMBEAU_CUSOLVER_FUNCTIONS(X)                                                                                 \
  X(create, Status, "cusolverDnCreate", (Handle**))                                                                    \
  X(set_stream, Status, "cusolverDnSetStream", (Handle*, Stream))                                                      \
  X(create_settings, Status, "cusolverDnCreateParams", (Settings**))                                                   \
  X(potrf_room, Status, "cusolverDnXpotrf_bufferSize",                                                                 \
    (Handle*, Settings*, int uplo, int64_t n, int type, const void* a, int64_t lda, int computes, size_t* device,      \
     size_t* host))                                                                                                    \
  X(potrf, Status, "cusolverDnXpotrf",                                                                                 \
    (Handle*, Settings*, int uplo, int64_t n, int type, void* a, int64_t lda, int computes, void* room, size_t         \
     device, void* host_room, size_t host, int* info))                                                                 \
  X(getrf_room, Status, "cusolverDnXgetrf_bufferSize",                                                                 \
    (Handle*, Settings*, int64_t m, int64_t n, int type, const void* a, int64_t lda, int computes, size_t*             \
     device, size_t* host))                                                                                            \
  X(getrf, Status, "cusolverDnXgetrf",                                                                                 \
    (Handle*, Settings*, int64_t m, int64_t n, int type, void* a, int64_t lda, int64_t* pivots, int computes,          \
     void* room, size_t device, void* host_room, size_t host, int* info))                                              \
  X(syevd_room, Status, "cusolverDnXsyevd_bufferSize",                                                                 \
    (Handle*, Settings*, int vectors, int uplo, int64_t n, int type, const void* a, int64_t lda, int values_type,      \
     const void* values, int computes, size_t* device, size_t* host))                                                  \
  X(syevd, Status, "cusolverDnXsyevd",                                                                                 \
    (Handle*, Settings*, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda, int values_type, void*      \
     values, int computes, void* room, size_t device, void* host_room, size_t host, int* info))                        \
  X(gesvd_room, Status, "cusolverDnXgesvd_bufferSize",                                                                 \
    (Handle*, Settings*, signed char u_job, signed char v_job, int64_t m, int64_t n, int type, const void* a,          \
     int64_t lda, int s_type, const void* s, int u_type, const void* u, int64_t ldu, int v_type, const void* v,        \
     int64_t ldv, int computes, size_t* device, size_t* host))                                                         \
  X(gesvd, Status, "cusolverDnXgesvd",                                                                                 \
    (Handle*, Settings*, signed char u_job, signed char v_job, int64_t m, int64_t n, int type, void* a, int64_t        \
     lda, int s_type, void* s, int u_type, void* u, int64_t ldu, int v_type, void* v, int64_t ldv, int computes,       \
     void* room, size_t device, void* host_room, size_t host, int* info))                                              \
  X(geqrf_room, Status, "cusolverDnXgeqrf_bufferSize",                                                                 \
    (Handle*, Settings*, int64_t m, int64_t n, int type, const void* a, int64_t lda, int tau_type, const void*         \
     tau, int computes, size_t* device, size_t* host))                                                                 \
  X(geqrf, Status, "cusolverDnXgeqrf",                                                                                 \
    (Handle*, Settings*, int64_t m, int64_t n, int type, void* a, int64_t lda, int tau_type, void* tau, int            \
     computes, void* room, size_t device, void* host_room, size_t host, int* info))                                    \
  X(sytrs_room, Status, "cusolverDnXsytrs_bufferSize",                                                                 \
    (Handle*, int uplo, int64_t n, int64_t columns, int type, const void* a, int64_t lda, const int64_t* pivots,       \
     int b_type, void* b, int64_t ldb, size_t* device, size_t* host))                                                  \
  X(sytrs, Status, "cusolverDnXsytrs",                                                                                 \
    (Handle*, int uplo, int64_t n, int64_t columns, int type, const void* a, int64_t lda, const int64_t* pivots,       \
     int b_type, void* b, int64_t ldb, void* room, size_t device, void* host_room, size_t host, int* info))            \
  X(sorgqr_room, Status, "cusolverDnSorgqr_bufferSize",                                                                \
    (Handle*, int m, int n, int k, const void* a, int lda, const void* tau, int* length))                              \
  X(sorgqr, Status, "cusolverDnSorgqr",                                                                                \
    (Handle*, int m, int n, int k, void* a, int lda, const void* tau, void* room, int length, int* info))              \
  X(sormqr_room, Status, "cusolverDnSormqr_bufferSize",                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, const void*      \
     c, int ldc, int* length))                                                                                         \
  X(sormqr, Status, "cusolverDnSormqr",                                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, void* c,         \
     int ldc, void* room, int length, int* info))                                                                      \
  X(ssytrf_room, Status, "cusolverDnSsytrf_bufferSize", (Handle*, int n, void* a, int lda, int* length))               \
  X(ssytrf, Status, "cusolverDnSsytrf",                                                                                \
    (Handle*, int uplo, int n, void* a, int lda, int* pivots, void* room, int length, int* info))                      \
  X(dorgqr_room, Status, "cusolverDnDorgqr_bufferSize",                                                                \
    (Handle*, int m, int n, int k, const void* a, int lda, const void* tau, int* length))                              \
  X(dorgqr, Status, "cusolverDnDorgqr",                                                                                \
    (Handle*, int m, int n, int k, void* a, int lda, const void* tau, void* room, int length, int* info))              \
  X(dormqr_room, Status, "cusolverDnDormqr_bufferSize",                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, const void*      \
     c, int ldc, int* length))                                                                                         \
  X(dormqr, Status, "cusolverDnDormqr",                                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, void* c,         \
     int ldc, void* room, int length, int* info))                                                                      \
  X(dsytrf_room, Status, "cusolverDnDsytrf_bufferSize", (Handle*, int n, void* a, int lda, int* length))               \
  X(dsytrf, Status, "cusolverDnDsytrf",                                                                                \
    (Handle*, int uplo, int n, void* a, int lda, int* pivots, void* room, int length, int* info))                      \
  X(corgqr_room, Status, "cusolverDnCungqr_bufferSize",                                                                \
    (Handle*, int m, int n, int k, const void* a, int lda, const void* tau, int* length))                              \
  X(corgqr, Status, "cusolverDnCungqr",                                                                                \
    (Handle*, int m, int n, int k, void* a, int lda, const void* tau, void* room, int length, int* info))              \
  X(cormqr_room, Status, "cusolverDnCunmqr_bufferSize",                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, const void*      \
     c, int ldc, int* length))                                                                                         \
  X(cormqr, Status, "cusolverDnCunmqr",                                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, void* c,         \
     int ldc, void* room, int length, int* info))                                                                      \
  X(csytrf_room, Status, "cusolverDnCsytrf_bufferSize", (Handle*, int n, void* a, int lda, int* length))               \
  X(csytrf, Status, "cusolverDnCsytrf",                                                                                \
    (Handle*, int uplo, int n, void* a, int lda, int* pivots, void* room, int length, int* info))                      \
  X(zorgqr_room, Status, "cusolverDnZungqr_bufferSize",                                                                \
    (Handle*, int m, int n, int k, const void* a, int lda, const void* tau, int* length))                              \
  X(zorgqr, Status, "cusolverDnZungqr",                                                                                \
    (Handle*, int m, int n, int k, void* a, int lda, const void* tau, void* room, int length, int* info))              \
  X(zormqr_room, Status, "cusolverDnZunmqr_bufferSize",                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, const void*      \
     c, int ldc, int* length))                                                                                         \
  X(zormqr, Status, "cusolverDnZunmqr",                                                                                \
    (Handle*, int side, int transposed, int m, int n, int k, const void* a, int lda, const void* tau, void* c,         \
     int ldc, void* room, int length, int* info))                                                                      \
  X(zsytrf_room, Status, "cusolverDnZsytrf_bufferSize", (Handle*, int n, void* a, int lda, int* length))               \
  X(zsytrf, Status, "cusolverDnZsytrf",                                                                                \
    (Handle*, int uplo, int n, void* a, int lda, int* pivots, void* room, int length, int* info))
// clang-format on

inline constexpr const char* kName = "cuSOLVER";
struct Library {
  FLAMBEAU_LIBRARY(FLAMBEAU_CUSOLVER_FUNCTIONS)
  Handles<Handle> handles;  // of each stream: a handle has memory of its own on the device
  Handles<Settings> settings;
};

void check(Status s, const char* op, const char* where);

// The library as a call of one dtype on one device sees it.
struct Solver {
  Library& l;
  Handle* handle = nullptr;  // of the stream of the last call
  Settings* settings;
  int type, real;  // CUDA's numbers of the dtype, and of that of its real parts
  Solver(int device, const Constants& c);
  void follow(int device, Stream stream, const char* op);
  int64_t size() const { return bytes_of_type(type); }
  int64_t real_size() const { return bytes_of_type(real); }
};

}  // namespace flambeau::cuda::cusolver

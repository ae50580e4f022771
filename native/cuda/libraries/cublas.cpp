// cuBLAS: triangular systems, which cuBLASLt does not solve, and decompositions of whole batches of small matrices.
#include "cublas.h"

#include "handles.h"

namespace flambeau::cuda {
namespace cublas {
namespace {

// clang-format off
#define COMMON(X)                                                                                                      \
  X(create, Status, "cublasCreate_v2", (Handle**))                                                                     \
  X(set_stream, Status, "cublasSetStream_v2", (Handle*, Stream))                                                       \
  X(set_workspace, Status, "cublasSetWorkspace_v2", (Handle*, void*, size_t))                                          \
  X(status_name, const char*, "cublasGetStatusName", (Status))
// clang-format on

struct Common {
  FLAMBEAU_LIBRARY(COMMON)
  Handles<Handle> handles;
};
Common* opened = nullptr;

}  // namespace

void check(Status s, const char* op, const char* where) {
  if (__builtin_expect(s != 0, 0)) library_failed(op, kName, opened->status_name(s), s, where);
}

Handle* handle_of(int device, const Constants& constants) {
  if (!opened) opened = open_table<Common>(kName, constants);
  return opened->handles.of_device(
      device, [&](Handle** made) { check(opened->create(made), constants.op, "cublasCreate_v2"); });
}

size_t workspace_of(int device) { return size_t(properties(device).major >= 9 ? 32 : 4) << 20; }

void follow(Handle* handle, const LibrarySite& at, size_t workspace) {
  check(opened->set_stream(handle, at.stream), at.op, "cublasSetStream_v2");
  check(opened->set_workspace(handle, at.room(), workspace), at.op, "cublasSetWorkspace_v2");
}

}  // namespace cublas
namespace {

using namespace cublas;

// clang-format off
#define FUNCTIONS(X)                                                                                                   \
  X(strsm, Status, "cublasStrsm_v2_64",                                                                                \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))                                                                               \
  X(dtrsm, Status, "cublasDtrsm_v2_64",                                                                                \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))                                                                               \
  X(ctrsm, Status, "cublasCtrsm_v2_64",                                                                                \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))                                                                               \
  X(ztrsm, Status, "cublasZtrsm_v2_64",                                                                                \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))                                                                               \
  X(sgetrf_batched, Status, "cublasSgetrfBatched",                                                                     \
    (Handle*, int n, void* const* matrices, int lda, int* pivots, int* info, int batch))                               \
  X(sgeqrf_batched, Status, "cublasSgeqrfBatched",                                                                     \
    (Handle*, int m, int n, void* const* matrices, int lda, void* const* factors, int* bad, int batch))                \
  X(strsm_batched, Status, "cublasStrsmBatched",                                                                       \
    (Handle*, int side, int uplo, int transposed, int unit, int m, int n, const void* alpha, const void* const*        \
     a, int lda, void* const* b, int ldb, int batch))                                                                  \
  X(dgetrf_batched, Status, "cublasDgetrfBatched",                                                                     \
    (Handle*, int n, void* const* matrices, int lda, int* pivots, int* info, int batch))                               \
  X(dgeqrf_batched, Status, "cublasDgeqrfBatched",                                                                     \
    (Handle*, int m, int n, void* const* matrices, int lda, void* const* factors, int* bad, int batch))                \
  X(dtrsm_batched, Status, "cublasDtrsmBatched",                                                                       \
    (Handle*, int side, int uplo, int transposed, int unit, int m, int n, const void* alpha, const void* const*        \
     a, int lda, void* const* b, int ldb, int batch))                                                                  \
  X(cgetrf_batched, Status, "cublasCgetrfBatched",                                                                     \
    (Handle*, int n, void* const* matrices, int lda, int* pivots, int* info, int batch))                               \
  X(cgeqrf_batched, Status, "cublasCgeqrfBatched",                                                                     \
    (Handle*, int m, int n, void* const* matrices, int lda, void* const* factors, int* bad, int batch))                \
  X(ctrsm_batched, Status, "cublasCtrsmBatched",                                                                       \
    (Handle*, int side, int uplo, int transposed, int unit, int m, int n, const void* alpha, const void* const*        \
     a, int lda, void* const* b, int ldb, int batch))                                                                  \
  X(zgetrf_batched, Status, "cublasZgetrfBatched",                                                                     \
    (Handle*, int n, void* const* matrices, int lda, int* pivots, int* info, int batch))                               \
  X(zgeqrf_batched, Status, "cublasZgeqrfBatched",                                                                     \
    (Handle*, int m, int n, void* const* matrices, int lda, void* const* factors, int* bad, int batch))                \
  X(ztrsm_batched, Status, "cublasZtrsmBatched",                                                                       \
    (Handle*, int side, int uplo, int transposed, int unit, int m, int n, const void* alpha, const void* const*        \
     a, int lda, void* const* b, int ldb, int batch))
// clang-format on

struct Library {
  FLAMBEAU_LIBRARY(FUNCTIONS)
};
Library& library_of(const Constants& constants) {
  static Library* opened = open_table<Library>(kName, constants);
  return *opened;
}

// The library as a call of one dtype on one device sees it.
struct Blas {
  Library& l;
  Handle* handle;
  int type;
  size_t workspace;
  double one[2] = {0, 0};  // in the dtype
  Blas(int device, const Constants& c)
      : l(library_of(c)), handle(handle_of(device, c)), type(cuda_type(c.word("dtype"), c)),
        workspace(workspace_of(device)) {
    if (type == 0 || type == 4) reinterpret_cast<float*>(one)[0] = 1;
    else one[0] = 1;
  }
  void follow(const LibrarySite& at) const { cublas::follow(handle, at, workspace); }
};

class Triangular final : public LibraryCall {
 public:
  Triangular(int device, const Constants& c)
      : x_(device, c), m_(c.integer("m")), n_(c.integer("n")), batch_(c.integer("batch")),
        left_(c.integer("left") != 0), upper_(c.integer("upper") != 0), unit_(c.integer("unit") != 0) {
    workspace = x_.workspace;
  }

  void run(const LibrarySite& at) override {
    x_.follow(at);
    const auto solve = for_type(x_.type, x_.l.strsm, x_.l.dtrsm, x_.l.ctrsm, x_.l.ztrsm);
    const int64_t size = bytes_of_type(x_.type), order = left_ ? m_ : n_;
    for (int64_t k = 0; k < batch_; ++k) {
      const char* a = static_cast<const char*>(at.pointer(0)) + k * order * order * size;
      char* b = static_cast<char*>(at.pointer(1)) + k * m_ * n_ * size;
      check(solve(x_.handle, !left_, upper_, 0, unit_, m_, n_, x_.one, a, order, b, m_), at.op,
               "cublasXtrsm_v2_64");
    }
  }

 private:
  const Blas x_;
  const int64_t m_, n_, batch_;
  const bool left_, upper_, unit_;
};

// Of all matrices of a batch at once: "lu" (operands: addresses, pivots or nothing, info) of square ones, "qr" (the
// addresses of the matrices and of their factors), and "triangular" (the addresses of A and of B).
class Batched final : public LibraryCall {
 public:
  Batched(int device, const Constants& c)
      : x_(device, c), m_(int(c.integer("m"))), n_(int(c.integer("n"))), batch_(int(c.integer("batch"))),
        left_(c.integer("left") != 0), upper_(c.integer("upper") != 0), unit_(c.integer("unit") != 0) {
    workspace = x_.workspace;
    const std::string& way = c.word("way");
    run_ = way == "lu" ? &Batched::lu : way == "qr" ? &Batched::qr : &Batched::triangular;
  }
  void run(const LibrarySite& at) override {
    x_.follow(at);
    (this->*run_)(at);
  }

 private:
  const Blas x_;
  const int m_, n_, batch_;
  const bool left_, upper_, unit_;
  void (Batched::*run_)(const LibrarySite& at) const;

  static void** addresses(const LibrarySite& at, size_t k) { return static_cast<void**>(at.pointer(k)); }
  void lu(const LibrarySite& at) const {
    const auto f =
        for_type(x_.type, x_.l.sgetrf_batched, x_.l.dgetrf_batched, x_.l.cgetrf_batched, x_.l.zgetrf_batched);
    check(f(x_.handle, n_, addresses(at, 0), n_, static_cast<int*>(at.pointer(1)), static_cast<int*>(at.pointer(2)),
               batch_), at.op, "cublasXgetrfBatched");
  }
  void qr(const LibrarySite& at) const {
    int bad = 0;  // a parameter; no matrix fails
    const auto f =
        for_type(x_.type, x_.l.sgeqrf_batched, x_.l.dgeqrf_batched, x_.l.cgeqrf_batched, x_.l.zgeqrf_batched);
    check(f(x_.handle, m_, n_, addresses(at, 0), m_, addresses(at, 1), &bad, batch_), at.op, "cublasXgeqrfBatched");
  }
  void triangular(const LibrarySite& at) const {
    const auto f = for_type(x_.type, x_.l.strsm_batched, x_.l.dtrsm_batched, x_.l.ctrsm_batched, x_.l.ztrsm_batched);
    check(f(x_.handle, !left_, upper_, 0, unit_, m_, n_, x_.one, addresses(at, 0), left_ ? m_ : n_,
               addresses(at, 1), m_, batch_), at.op, "cublasXtrsmBatched");
  }
};

}  // namespace

// Operands: A, B, both by columns; B becomes X of A X = B ("left") or X A = B.
std::unique_ptr<LibraryCall> make_cublas_triangular(int device, const Constants& constants) {
  return std::make_unique<Triangular>(device, constants);
}
std::unique_ptr<LibraryCall> make_cublas_batched(int device, const Constants& constants) {
  return std::make_unique<Batched>(device, constants);
}

}  // namespace flambeau::cuda

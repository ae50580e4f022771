// cuBLAS: triangular systems, which cuBLASLt does not solve.
#include <array>

#include "calls.h"

namespace flambeau::cuda {
namespace {

constexpr const char* kName = "cuBLAS";
using Status = int;
struct Handle;

// clang-format off
#define FUNCTIONS(X)                                                                                                   \
  X(create, Status, "cublasCreate_v2", (Handle**))                                                                     \
  X(set_stream, Status, "cublasSetStream_v2", (Handle*, Stream))                                                       \
  X(status_name, const char*, "cublasGetStatusName", (Status))                                                         \
  X(strsm, Status, "cublasStrsm_v2_64", \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))                                                                         \
  X(dtrsm, Status, "cublasDtrsm_v2_64", \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))                                                                         \
  X(ctrsm, Status, "cublasCtrsm_v2_64", \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))                                                                         \
  X(ztrsm, Status, "cublasZtrsm_v2_64", \
    (Handle*, int side, int uplo, int transposed, int unit, int64_t m, int64_t n, const void* alpha, const void* a,    \
     int64_t lda, void* b, int64_t ldb))
// clang-format on

struct Library {
  FLAMBEAU_LIBRARY(FUNCTIONS)
  Handle* handles[kMaxCudaDevices] = {};
};
Library& library_of(const Constants& constants) {
  static Library* opened = open_table<Library>(kName, constants);
  return *opened;
}

class Triangular final : public LibraryCall {
 public:
  Triangular(int device, const Constants& c)
      : l_(library_of(c)), m_(c.integer("m")), n_(c.integer("n")), batch_(c.integer("batch")),
        left_(c.integer("left") != 0), upper_(c.integer("upper") != 0), unit_(c.integer("unit") != 0),
        type_(cuda_type(c.word("dtype"), c)) {
    if (!l_.handles[device]) check(l_.create(&l_.handles[device]), c.op, "cublasCreate_v2");
    handle_ = l_.handles[device];
    if (type_ == 0) reinterpret_cast<float*>(one_)[0] = 1;
    else if (type_ == 4) reinterpret_cast<float*>(one_)[0] = 1;
    else one_[0] = 1;
  }

  void run(const LibrarySite& at) override {
    check(l_.set_stream(handle_, at.stream), at.op, "cublasSetStream_v2");
    const auto solve = type_ == 0 ? l_.strsm : type_ == 1 ? l_.dtrsm : type_ == 4 ? l_.ctrsm : l_.ztrsm;
    const int64_t size = type_ == 0 ? 4 : type_ == 5 ? 16 : 8, order = left_ ? m_ : n_;
    for (int64_t k = 0; k < batch_; ++k) {
      const char* a = static_cast<const char*>(at.pointer(0)) + k * order * order * size;
      char* b = static_cast<char*>(at.pointer(1)) + k * m_ * n_ * size;
      check(solve(handle_, left_ ? 0 : 1, upper_ ? 1 : 0, 0, unit_ ? 1 : 0, m_, n_, one_, a, order, b, m_), at.op,
            "cublasXtrsm_v2_64");
    }
  }

 private:
  Library& l_;
  Handle* handle_ = nullptr;
  const int64_t m_, n_, batch_;
  const bool left_, upper_, unit_;
  const int type_;
  double one_[2] = {0, 0};

  void check(Status s, const char* op, const char* where) const {
    if (__builtin_expect(s != 0, 0)) library_failed(op, kName, l_.status_name(s), s, where);
  }
};

}  // namespace

// Operands: A, B, both by columns; B becomes X of A X = B ("left") or X A = B.
std::unique_ptr<LibraryCall> make_cublas_triangular(int device, const Constants& constants) {
  return std::make_unique<Triangular>(device, constants);
}

}  // namespace flambeau::cuda

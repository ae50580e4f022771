// cuSOLVER: decompositions of matrices that lie by columns, one after the other over a batch, by its 64-bit interface.
#include "calls.h"

namespace flambeau::cuda {
namespace {

constexpr const char* kName = "cuSOLVER";
using Status = int;
struct Handle;
struct Settings;

// clang-format off
#define FUNCTIONS(X)                                                                                                   \
  X(create, Status, "cusolverDnCreate", (Handle**))                                                                    \
  X(set_stream, Status, "cusolverDnSetStream", (Handle*, Stream))                                                      \
  X(settings, Status, "cusolverDnCreateParams", (Settings**))                                                          \
  X(potrf_room, Status, "cusolverDnXpotrf_bufferSize",                                                                 \
    (Handle*, Settings*, int uplo, int64_t n, int type, const void* a, int64_t lda, int computes, size_t* device,      \
     size_t* host))                                                                                                    \
  X(potrf, Status, "cusolverDnXpotrf",                                                                                 \
    (Handle*, Settings*, int uplo, int64_t n, int type, void* a, int64_t lda, int computes, void* room, size_t device, \
     void* host_room, size_t host, int* info))                                                                         \
  X(getrf_room, Status, "cusolverDnXgetrf_bufferSize",                                                                 \
    (Handle*, Settings*, int64_t m, int64_t n, int type, const void* a, int64_t lda, int computes, size_t* device,     \
     size_t* host))                                                                                                    \
  X(getrf, Status, "cusolverDnXgetrf",                                                                                 \
    (Handle*, Settings*, int64_t m, int64_t n, int type, void* a, int64_t lda, int64_t* pivots, int computes,          \
     void* room, size_t device, void* host_room, size_t host, int* info))                                              \
  X(syevd_room, Status, "cusolverDnXsyevd_bufferSize",                                                                 \
    (Handle*, Settings*, int vectors, int uplo, int64_t n, int type, const void* a, int64_t lda, int values_type,      \
     const void* values, int computes, size_t* device, size_t* host))                                                  \
  X(syevd, Status, "cusolverDnXsyevd",                                                                                 \
    (Handle*, Settings*, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda, int values_type,            \
     void* values, int computes, void* room, size_t device, void* host_room, size_t host, int* info))                  \
  X(gesvd_room, Status, "cusolverDnXgesvd_bufferSize",                                                                 \
    (Handle*, Settings*, signed char u_job, signed char v_job, int64_t m, int64_t n, int type, const void* a,          \
     int64_t lda, int s_type, const void* s, int u_type, const void* u, int64_t ldu, int v_type, const void* v,        \
     int64_t ldv, int computes, size_t* device, size_t* host))                                                         \
  X(gesvd, Status, "cusolverDnXgesvd",                                                                                 \
    (Handle*, Settings*, signed char u_job, signed char v_job, int64_t m, int64_t n, int type, void* a, int64_t lda,   \
     int s_type, void* s, int u_type, void* u, int64_t ldu, int v_type, void* v, int64_t ldv, int computes,            \
     void* room, size_t device, void* host_room, size_t host, int* info))
// clang-format on

struct Library {
  FLAMBEAU_LIBRARY(FUNCTIONS)
  Handle* handles[kMaxCudaDevices] = {};
  Settings* settings_of[kMaxCudaDevices] = {};
};
Library& library_of(const Constants& constants) {
  static Library* opened = open_table<Library>(kName, constants);
  return *opened;
}

// The library has no function that names its status.
void check(Status s, const char* op, const char* where) {
  constexpr const char* names[] = {"SUCCESS",       "NOT_INITIALIZED",  "ALLOC_FAILED",   "INVALID_VALUE",
                                   "ARCH_MISMATCH", "MAPPING_ERROR",    "EXECUTION_FAILED", "INTERNAL_ERROR",
                                   "MATRIX_TYPE_NOT_SUPPORTED", "NOT_SUPPORTED"};
  if (__builtin_expect(s == 0, 1)) return;
  const std::string name = s < 10 ? concat("CUSOLVER_STATUS_", names[s]) : "unknown status";
  library_failed(op, kName, name.c_str(), s, where);
}

class Decomposition final : public LibraryCall {
 public:
  Decomposition(int device, const Constants& c)
      : l_(library_of(c)), way_(c.word("way")), m_(c.integer("m")), n_(c.integer("n")), batch_(c.integer("batch")),
        upper_(int(c.integer("upper"))), vectors_(int(c.integer("vectors"))), type_(cuda_type(c.word("dtype"), c)) {
    if (!l_.handles[device]) check(l_.create(&l_.handles[device]), c.op, "cusolverDnCreate");
    if (!l_.settings_of[device]) check(l_.settings(&l_.settings_of[device]), c.op, "cusolverDnCreateParams");
    handle_ = l_.handles[device];
    settings_ = l_.settings_of[device];
    real_ = type_ == 4 ? 0 : type_ == 5 ? 1 : type_;
    measure(c.op);
    workspace = room_;
    host_.resize(std::max<size_t>(host_room_, 1));
  }

  void run(const LibrarySite& at) override {
    check(l_.set_stream(handle_, at.stream), at.op, "cusolverDnSetStream");
    for (int64_t b = 0; b < batch_; ++b) run_one(at, b);
  }

 private:
  Library& l_;
  Handle* handle_ = nullptr;
  Settings* settings_ = nullptr;
  const std::string way_;
  const int64_t m_, n_, batch_;
  const int upper_, vectors_;  // vectors: 0 none, 1 as many as there are values, 2 all
  const int type_;
  int real_;
  size_t room_ = 0, host_room_ = 0;
  std::vector<char> host_;

  signed char job() const { return vectors_ == 0 ? 'N' : vectors_ == 1 ? 'S' : 'A'; }
  int64_t v_rows() const { return vectors_ == 2 ? n_ : std::min(m_, n_); }
  int64_t u_columns() const { return vectors_ == 2 ? m_ : std::min(m_, n_); }

  void measure(const char* op) {
    if (way_ == "cholesky")
      check(l_.potrf_room(handle_, settings_, upper_, n_, type_, nullptr, n_, type_, &room_, &host_room_), op,
            "cusolverDnXpotrf_bufferSize");
    else if (way_ == "lu")
      check(l_.getrf_room(handle_, settings_, m_, n_, type_, nullptr, m_, type_, &room_, &host_room_), op,
            "cusolverDnXgetrf_bufferSize");
    else if (way_ == "eigh")
      check(l_.syevd_room(handle_, settings_, vectors_ != 0, upper_, n_, type_, nullptr, n_, real_, nullptr, type_,
                          &room_, &host_room_),
            op, "cusolverDnXsyevd_bufferSize");
    else
      check(l_.gesvd_room(handle_, settings_, job(), job(), m_, n_, type_, nullptr, m_, real_, nullptr, type_, nullptr,
                          m_, type_, nullptr, v_rows(), type_, &room_, &host_room_),
            op, "cusolverDnXgesvd_bufferSize");
  }
  void run_one(const LibrarySite& at, int64_t b) {
    const int64_t size = type_ == 0 ? 4 : type_ == 5 ? 16 : 8, real_size = real_ == 0 ? 4 : 8;
    const int64_t values = std::min(m_, n_);
    auto place = [&](size_t k, int64_t step) { return static_cast<char*>(at.pointer(k)) + b * step; };
    void *a = place(0, m_ * n_ * size), *host = host_.data();
    if (way_ == "cholesky") {  // A, info
      check(l_.potrf(handle_, settings_, upper_, n_, type_, a, n_, type_, at.room(), room_, host, host_room_,
                     reinterpret_cast<int*>(place(1, 4))),
            at.op, "cusolverDnXpotrf");
    } else if (way_ == "lu") {  // A, pivots or nothing, info
      auto* pivots = at.operands[1] ? reinterpret_cast<int64_t*>(place(1, values * 8)) : nullptr;
      check(l_.getrf(handle_, settings_, m_, n_, type_, a, m_, pivots, type_, at.room(), room_, host, host_room_,
                     reinterpret_cast<int*>(place(2, 4))),
            at.op, "cusolverDnXgetrf");
    } else if (way_ == "eigh") {  // A, values, info
      check(l_.syevd(handle_, settings_, vectors_ != 0, upper_, n_, type_, a, n_, real_, place(1, n_ * real_size),
                     type_, at.room(), room_, host, host_room_, reinterpret_cast<int*>(place(2, 4))),
            at.op, "cusolverDnXsyevd");
    } else {  // A, S, U, V^H, info
      void* u = vectors_ ? place(2, m_ * u_columns() * size) : nullptr;
      void* v = vectors_ ? place(3, v_rows() * n_ * size) : nullptr;
      check(l_.gesvd(handle_, settings_, job(), job(), m_, n_, type_, a, m_, real_, place(1, values * real_size), type_,
                     u, m_, type_, v, v_rows(), type_, at.room(), room_, host, host_room_,
                     reinterpret_cast<int*>(place(4, 4))),
            at.op, "cusolverDnXgesvd");
    }
  }
};

}  // namespace

std::unique_ptr<LibraryCall> make_cusolver_decomposition(int device, const Constants& constants) {
  return std::make_unique<Decomposition>(device, constants);
}

}  // namespace flambeau::cuda

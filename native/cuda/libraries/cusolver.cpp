// cuSOLVER: decompositions of matrices, one after the other over a batch, by its 64-bit interface.
#include <algorithm>

#include "cusolver.h"

namespace flambeau::cuda {
namespace cusolver {

// The library has no function that names its status.
void check(Status s, const char* op, const char* where) {
  constexpr const char* names[] = {"SUCCESS",       "NOT_INITIALIZED",  "ALLOC_FAILED",   "INVALID_VALUE",
                                   "ARCH_MISMATCH", "MAPPING_ERROR",    "EXECUTION_FAILED", "INTERNAL_ERROR",
                                   "MATRIX_TYPE_NOT_SUPPORTED", "NOT_SUPPORTED"};
  if (__builtin_expect(s == 0, 1)) return;
  const std::string name = s < 10 ? concat("CUSOLVER_STATUS_", names[s]) : "unknown status";
  library_failed(op, kName, name.c_str(), s, where);
}

static Library& library_of(const Constants& constants) {
  static Library* opened = open_table<Library>(kName, constants);
  return *opened;
}
Solver::Solver(int device, const Constants& c) : l(library_of(c)), type(cuda_type(c.word("dtype"), c)) {
  follow(device, current_stream(device), c.op);
  settings = l.settings.of_device(
      device, [&](Settings** made) { check(l.create_settings(made), c.op, "cusolverDnCreateParams"); });
  real = type == 4 ? 0 : type == 5 ? 1 : type;
}

// While work is recorded no handle can be made, since that asks the driver for memory: the one of the last call serves.
void Solver::follow(int device, Stream stream, const char* op) {
  if (!handle || !capturing(stream) || l.handles.has(device, stream))
    handle = l.handles.of_stream(device, stream,
                                 [&](Handle** made) { check(l.create(made), op, "cusolverDnCreate"); });
  check(l.set_stream(handle, stream), op, "cusolverDnSetStream");
}

}  // namespace cusolver
namespace {

using namespace cusolver;

class Decomposition final : public LibraryCall {
 public:
  Decomposition(int device, const Constants& c)
      : solver_(device, c), way_(c.word("way")), m_(c.integer("m")), n_(c.integer("n")), batch_(c.integer("batch")),
        upper_(int(c.integer("upper"))), vectors_(int(c.integer("vectors"))) {
    measure(c.op);
    workspace = room_;
    host_.resize(std::max<size_t>(host_room_, 1));
  }

  void run(const LibrarySite& at) override {
    solver_.follow(at.device, at.stream, at.op);
    for (int64_t b = 0; b < batch_; ++b) run_one(at, b);
  }

 private:
  Solver solver_;
  Library& l_ = solver_.l;
  Handle*& handle_ = solver_.handle;
  Settings* const settings_ = solver_.settings;
  const std::string way_;
  const int64_t m_, n_, batch_;
  const int upper_, vectors_;  // vectors: 0 none, 1 as many as there are values, 2 all
  const int type_ = solver_.type, real_ = solver_.real;
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
    const int64_t size = solver_.size(), real_size = solver_.real_size();
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

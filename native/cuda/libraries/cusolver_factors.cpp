// cuSOLVER: reflections (QR), LDL and the eigenvalues of any square matrix, one matrix after the other over a batch.
#include <algorithm>

#include "cusolver.h"

namespace flambeau::cuda {
namespace {

using namespace cusolver;

// Of cuSOLVER 11.7.1 and later: only who asks for eigenvalues needs it.
// clang-format off
#define NEWER(X)                                                                                                       \
  X(geev_room, Status, "cusolverDnXgeev_bufferSize",                                                                   \
    (Handle*, Settings*, int left, int right, int64_t n, int type, const void* a, int64_t lda, int values_type,        \
     const void* values, int left_type, const void* left_vectors, int64_t ldl, int right_type,                         \
     const void* right_vectors, int64_t ldr, int computes, size_t* device, size_t* host))                              \
  X(geev, Status, "cusolverDnXgeev",                                                                                   \
    (Handle*, Settings*, int left, int right, int64_t n, int type, void* a, int64_t lda, int values_type,              \
     void* values, int left_type, void* left_vectors, int64_t ldl, int right_type, void* right_vectors, int64_t ldr,   \
     int computes, void* room, size_t device, void* host_room, size_t host, int* info))
// clang-format on
struct Newer {
  FLAMBEAU_LIBRARY(NEWER)
};
Newer& newer_of(const Constants& constants) {
  static Newer* opened = open_table<Newer>(kName, constants);
  return *opened;
}

// One matrix of a call.
struct Matrix {
  const LibrarySite& at;
  int64_t number;
  // Where the matrix's part of operand k begins, whose parts have so many bytes.
  void* place(size_t k, int64_t bytes) const { return static_cast<char*>(at.pointer(k)) + number * bytes; }
  int* info(size_t k) const { return static_cast<int*>(place(k, 4)); }
};

class Factors final : public LibraryCall {
 public:
  Factors(int device, const Constants& c)
      : s_(device, c), m_(c.integer("m")), n_(c.integer("n")), k_(c.integer("k")), batch_(c.integer("batch")),
        left_(c.integer("left") != 0), transposed_(c.integer("transposed") != 0), vectors_(c.integer("vectors") != 0) {
    const std::string& name = c.word("way");
    way_ = std::ranges::find(kWays, std::string_view(name), &Way::name);
    if (way_->name == "geev") newer_ = &newer_of(c);
    (this->*way_->measure)(c.op);
    workspace = room_;
    host_.resize(std::max<size_t>(host_room_, 1));
  }

  void run(const LibrarySite& at) override {
    s_.follow(at.device, at.stream, at.op);
    for (int64_t b = 0; b < batch_; ++b) (this->*way_->run)({at, b});
  }

 private:
  struct Way {
    std::string_view name;
    void (Factors::*measure)(const char* op);
    void (Factors::*run)(const Matrix& x);
  };
  static const Way kWays[6];
  Solver s_;
  const Way* way_;
  Newer* newer_ = nullptr;
  const int64_t m_, n_, k_, batch_;
  const bool left_, transposed_, vectors_;
  size_t room_ = 0, host_room_ = 0;
  std::vector<char> host_;

  int transposed() const { return !transposed_ ? 0 : s_.type < 2 ? 1 : 2; }
  int64_t order() const { return left_ ? m_ : n_; }
  int length() const { return int(room_ / size_t(s_.size())); }
  // Older functions say how many elements they need.
  void measured(Status status, int elements, const char* op, const char* where) {
    check(status, op, where);
    room_ = size_t(std::max(elements, 1)) * size_t(s_.size());
  }

  // A (m x n) becomes R and the reflections; factors; info
  void measure_geqrf(const char* op) {
    check(s_.l.geqrf_room(s_.handle, s_.settings, m_, n_, s_.type, nullptr, m_, s_.type, nullptr, s_.type, &room_,
                          &host_room_), op, "cusolverDnXgeqrf_bufferSize");
  }
  void run_geqrf(const Matrix& x) {
    check(s_.l.geqrf(s_.handle, s_.settings, m_, n_, s_.type, x.place(0, m_ * n_ * s_.size()), m_, s_.type,
                     x.place(1, std::min(m_, n_) * s_.size()), s_.type, x.at.room(), room_, host_.data(), host_room_,
                     x.info(2)), x.at.op, "cusolverDnXgeqrf");
  }
  // Reflections (m x n) become the first columns of their product; k factors; info
  void measure_orgqr(const char* op) {
    int elements = 0;
    const auto f = for_type(s_.type, s_.l.sorgqr_room, s_.l.dorgqr_room, s_.l.corgqr_room, s_.l.zorgqr_room);
    const Status status = f(s_.handle, int(m_), int(n_), int(k_), nullptr, int(m_), nullptr, &elements);
    measured(status, elements, op, "cusolverDnXorgqr_bufferSize");
  }
  void run_orgqr(const Matrix& x) {
    const auto f = for_type(s_.type, s_.l.sorgqr, s_.l.dorgqr, s_.l.corgqr, s_.l.zorgqr);
    check(f(s_.handle, int(m_), int(n_), int(k_), x.place(0, m_ * n_ * s_.size()), int(m_),
            x.place(1, k_ * s_.size()), x.at.room(), length(), x.info(2)), x.at.op, "cusolverDnXorgqr");
  }
  // Reflections (rows or columns of C x k); k factors; C (m x n) becomes its product with them; info
  void measure_ormqr(const char* op) {
    int elements = 0;
    const auto f = for_type(s_.type, s_.l.sormqr_room, s_.l.dormqr_room, s_.l.cormqr_room, s_.l.zormqr_room);
    const Status status = f(s_.handle, !left_, transposed(), int(m_), int(n_), int(k_), nullptr, int(order()), nullptr,
                            nullptr, int(m_), &elements);
    measured(status, elements, op, "cusolverDnXormqr_bufferSize");
  }
  void run_ormqr(const Matrix& x) {
    const auto f = for_type(s_.type, s_.l.sormqr, s_.l.dormqr, s_.l.cormqr, s_.l.zormqr);
    check(f(s_.handle, !left_, transposed(), int(m_), int(n_), int(k_), x.place(0, order() * k_ * s_.size()),
            int(order()), x.place(1, k_ * s_.size()), x.place(2, m_ * n_ * s_.size()), int(m_), x.at.room(), length(),
            x.info(3)), x.at.op, "cusolverDnXormqr");
  }
  // A (n x n) becomes L and D; pivots of 32 bits; info
  void measure_sytrf(const char* op) {
    int elements = 0;
    const auto f = for_type(s_.type, s_.l.ssytrf_room, s_.l.dsytrf_room, s_.l.csytrf_room, s_.l.zsytrf_room);
    const Status status = f(s_.handle, int(n_), nullptr, int(n_), &elements);
    measured(status, elements, op, "cusolverDnXsytrf_bufferSize");
  }
  void run_sytrf(const Matrix& x) {
    const auto f = for_type(s_.type, s_.l.ssytrf, s_.l.dsytrf, s_.l.csytrf, s_.l.zsytrf);
    check(f(s_.handle, 0, int(n_), x.place(0, n_ * n_ * s_.size()), int(n_), static_cast<int*>(x.place(1, n_ * 4)),
            x.at.room(), length(), x.info(2)), x.at.op, "cusolverDnXsytrf");
  }
  // L and D (n x n); pivots of 64 bits; B (n x k) becomes X; info
  void measure_sytrs(const char* op) {
    check(s_.l.sytrs_room(s_.handle, 0, n_, k_, s_.type, nullptr, n_, nullptr, s_.type, nullptr, n_, &room_,
                          &host_room_), op, "cusolverDnXsytrs_bufferSize");
  }
  void run_sytrs(const Matrix& x) {
    check(s_.l.sytrs(s_.handle, 0, n_, k_, s_.type, x.place(0, n_ * n_ * s_.size()), n_,
                     static_cast<int64_t*>(x.place(1, n_ * 8)), s_.type, x.place(2, n_ * k_ * s_.size()), n_,
                     x.at.room(), room_, host_.data(), host_room_, x.info(3)), x.at.op, "cusolverDnXsytrs");
  }
  // A (n x n); complex eigenvalues; eigenvectors, if they are wanted, of A's dtype; info
  int values_type() const { return s_.real == 0 ? 4 : 5; }
  void measure_geev(const char* op) {
    check(newer_->geev_room(s_.handle, s_.settings, 0, vectors_, n_, s_.type, nullptr, n_, values_type(), nullptr,
                            s_.type, nullptr, n_, s_.type, nullptr, n_, s_.type, &room_, &host_room_), op,
          "cusolverDnXgeev_bufferSize");
  }
  void run_geev(const Matrix& x) {
    check(newer_->geev(s_.handle, s_.settings, 0, vectors_, n_, s_.type, x.place(0, n_ * n_ * s_.size()), n_,
                       values_type(), x.place(1, n_ * 2 * s_.real_size()), s_.type, nullptr, n_, s_.type,
                       vectors_ ? x.place(2, n_ * n_ * s_.size()) : nullptr, n_, s_.type, x.at.room(), room_,
                       host_.data(), host_room_, x.info(3)), x.at.op, "cusolverDnXgeev");
  }
};
constexpr Factors::Way Factors::kWays[6] = {{"geqrf", &Factors::measure_geqrf, &Factors::run_geqrf},
                                            {"orgqr", &Factors::measure_orgqr, &Factors::run_orgqr},
                                            {"ormqr", &Factors::measure_ormqr, &Factors::run_ormqr},
                                            {"sytrf", &Factors::measure_sytrf, &Factors::run_sytrf},
                                            {"sytrs", &Factors::measure_sytrs, &Factors::run_sytrs},
                                            {"geev", &Factors::measure_geev, &Factors::run_geev}};

}  // namespace

std::unique_ptr<LibraryCall> make_cusolver_factors(int device, const Constants& constants) {
  return std::make_unique<Factors>(device, constants);
}

}  // namespace flambeau::cuda

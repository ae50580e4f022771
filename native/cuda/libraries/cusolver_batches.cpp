// cuSOLVER: decompositions of whole batches by one call each: Cholesky, the eigenvalues of Hermitian matrices, and
// singular values of small matrices by Jacobi's rotations.
#include <algorithm>

#include "cusolver.h"

namespace flambeau::cuda {
namespace {

using namespace cusolver;
struct Turns;
struct SvdTurns;

// clang-format off
#define FUNCTIONS(X)                                                                                                   \
  X(create_turns, Status, "cusolverDnCreateSyevjInfo",                                                                 \
    (Turns**))                                                                                                         \
  X(create_svd_turns, Status, "cusolverDnCreateGesvdjInfo",                                                            \
    (SvdTurns**))                                                                                                      \
  X(spotrf, Status, "cusolverDnSpotrfBatched",                                                                         \
    (Handle*, int uplo, int n, void** matrices, int lda, int* info, int batch))                                        \
  X(ssyevj_room, Status, "cusolverDnSsyevjBatched_bufferSize",                                                         \
    (Handle*, int vectors, int uplo, int n, const void* a, int lda, const void* values, int* length, Turns*, int       \
     batch))                                                                                                           \
  X(ssyevj, Status, "cusolverDnSsyevjBatched",                                                                         \
    (Handle*, int vectors, int uplo, int n, void* a, int lda, void* values, void* room, int length, int* info,         \
     Turns*, int batch))                                                                                               \
  X(sgesvdj_room, Status, "cusolverDnSgesvdjBatched_bufferSize",                                                       \
    (Handle*, int vectors, int m, int n, const void* a, int lda, const void* s, const void* u, int ldu, const void*    \
     v, int ldv, int* length, SvdTurns*, int batch))                                                                   \
  X(sgesvdj, Status, "cusolverDnSgesvdjBatched",                                                                       \
    (Handle*, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v, int ldv, void* room,    \
     int length, int* info, SvdTurns*, int batch))                                                                     \
  X(dpotrf, Status, "cusolverDnDpotrfBatched",                                                                         \
    (Handle*, int uplo, int n, void** matrices, int lda, int* info, int batch))                                        \
  X(dsyevj_room, Status, "cusolverDnDsyevjBatched_bufferSize",                                                         \
    (Handle*, int vectors, int uplo, int n, const void* a, int lda, const void* values, int* length, Turns*, int       \
     batch))                                                                                                           \
  X(dsyevj, Status, "cusolverDnDsyevjBatched",                                                                         \
    (Handle*, int vectors, int uplo, int n, void* a, int lda, void* values, void* room, int length, int* info,         \
     Turns*, int batch))                                                                                               \
  X(dgesvdj_room, Status, "cusolverDnDgesvdjBatched_bufferSize",                                                       \
    (Handle*, int vectors, int m, int n, const void* a, int lda, const void* s, const void* u, int ldu, const void*    \
     v, int ldv, int* length, SvdTurns*, int batch))                                                                   \
  X(dgesvdj, Status, "cusolverDnDgesvdjBatched",                                                                       \
    (Handle*, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v, int ldv, void* room,    \
     int length, int* info, SvdTurns*, int batch))                                                                     \
  X(cpotrf, Status, "cusolverDnCpotrfBatched",                                                                         \
    (Handle*, int uplo, int n, void** matrices, int lda, int* info, int batch))                                        \
  X(csyevj_room, Status, "cusolverDnCheevjBatched_bufferSize",                                                         \
    (Handle*, int vectors, int uplo, int n, const void* a, int lda, const void* values, int* length, Turns*, int       \
     batch))                                                                                                           \
  X(csyevj, Status, "cusolverDnCheevjBatched",                                                                         \
    (Handle*, int vectors, int uplo, int n, void* a, int lda, void* values, void* room, int length, int* info,         \
     Turns*, int batch))                                                                                               \
  X(cgesvdj_room, Status, "cusolverDnCgesvdjBatched_bufferSize",                                                       \
    (Handle*, int vectors, int m, int n, const void* a, int lda, const void* s, const void* u, int ldu, const void*    \
     v, int ldv, int* length, SvdTurns*, int batch))                                                                   \
  X(cgesvdj, Status, "cusolverDnCgesvdjBatched",                                                                       \
    (Handle*, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v, int ldv, void* room,    \
     int length, int* info, SvdTurns*, int batch))                                                                     \
  X(zpotrf, Status, "cusolverDnZpotrfBatched",                                                                         \
    (Handle*, int uplo, int n, void** matrices, int lda, int* info, int batch))                                        \
  X(zsyevj_room, Status, "cusolverDnZheevjBatched_bufferSize",                                                         \
    (Handle*, int vectors, int uplo, int n, const void* a, int lda, const void* values, int* length, Turns*, int       \
     batch))                                                                                                           \
  X(zsyevj, Status, "cusolverDnZheevjBatched",                                                                         \
    (Handle*, int vectors, int uplo, int n, void* a, int lda, void* values, void* room, int length, int* info,         \
     Turns*, int batch))                                                                                               \
  X(zgesvdj_room, Status, "cusolverDnZgesvdjBatched_bufferSize",                                                       \
    (Handle*, int vectors, int m, int n, const void* a, int lda, const void* s, const void* u, int ldu, const void*    \
     v, int ldv, int* length, SvdTurns*, int batch))                                                                   \
  X(zgesvdj, Status, "cusolverDnZgesvdjBatched",                                                                       \
    (Handle*, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v, int ldv, void* room,    \
     int length, int* info, SvdTurns*, int batch))
#define NEWER(X)                                                                                                       \
  X(syev_room, Status, "cusolverDnXsyevBatched_bufferSize",                                                            \
    (Handle*, Settings*, int vectors, int uplo, int64_t n, int type, const void* a, int64_t lda, int values_type,      \
     const void* values, int computes, size_t* device, size_t* host, int64_t batch))                                   \
  X(syev, Status, "cusolverDnXsyevBatched",                                                                            \
    (Handle*, Settings*, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda, int values_type, void*      \
     values, int computes, void* room, size_t device, void* host_room, size_t host, int* info, int64_t batch))
// clang-format on

struct Batches {
  FLAMBEAU_LIBRARY(FUNCTIONS)
  Turns* turns = nullptr;  // what is usual: values in order, until they are as exact as the dtype
  SvdTurns* svd_turns = nullptr;
};
Batches& batches_of(const Constants& c) {
  static Batches* opened = open_table<Batches>(kName, c);
  if (!opened->turns) check(opened->create_turns(&opened->turns), c.op, "cusolverDnCreateSyevjInfo");
  if (!opened->svd_turns) check(opened->create_svd_turns(&opened->svd_turns), c.op, "cusolverDnCreateGesvdjInfo");
  return *opened;
}
// Of cuSOLVER 11.7.1 and later, else null.
struct Newer {
  FLAMBEAU_LIBRARY(NEWER)
};
Newer* newer_of(const Constants& c) {
  static Newer* opened = library_has(kName, "cusolverDnXsyevBatched", c) ? open_table<Newer>(kName, c) : nullptr;
  return opened;
}

// What a call takes at once: cuSOLVER refuses some 32,768 matrices, and counts elements in 32 bits.
constexpr int64_t kMostMatrices = 16384, kMostElements = 1 << 26;

// A piece of the batch.
struct Piece {
  const LibrarySite& at;
  int64_t first, count;
  // Where its part of operand k begins, whose parts for one matrix have so many bytes.
  void* place(size_t k, int64_t bytes) const { return static_cast<char*>(at.pointer(k)) + first * bytes; }
  int* info(size_t k) const { return static_cast<int*>(place(k, 4)); }
};

// Operands: "eigh": A, which becomes the eigenvectors if they are wanted, values, info; "svd", of at most 32 rows and
// columns: A, S, all of U and of V (not V^H), info; "cholesky": the addresses of the matrices, info. The rotations work
// in U and V even where nobody wants vectors.
class Batch final : public LibraryCall {
 public:
  Batch(int device, const Constants& c)
      : s_(device, c), l_(batches_of(c)), m_(c.integer("m")), n_(c.integer("n")), batch_(c.integer("batch")),
        upper_(int(c.integer("upper"))), vectors_(c.integer("vectors") != 0),
        most_(std::clamp<int64_t>(kMostElements / (m_ * n_), 1, std::min(kMostMatrices, batch_))) {
    const std::string& way = c.word("way");
    if (way == "eigh") measure_eigh(c);
    else if (way == "svd") measure_svd(c.op);
    else run_ = &Batch::cholesky;
    workspace = room_;
    host_.resize(std::max<size_t>(host_room_, 1));
  }

  void run(const LibrarySite& at) override {
    s_.follow(at.device, at.stream, at.op);
    for (int64_t first = 0; first < batch_; first += most_)
      (this->*run_)({at, first, std::min(most_, batch_ - first)});
  }

 private:
  Solver s_;
  Batches& l_;
  Newer* newer_ = nullptr;
  const int64_t m_, n_, batch_;
  const int upper_;
  const bool vectors_;
  const int64_t most_;  // matrices in a piece
  void (Batch::*run_)(const Piece&) = nullptr;
  size_t room_ = 0, host_room_ = 0;
  std::vector<char> host_;

  int length() const { return int(room_ / size_t(s_.size())); }
  int64_t matrix() const { return m_ * n_ * s_.size(); }  // bytes
  int64_t values() const { return std::min(m_, n_) * s_.real_size(); }
  void measured(Status status, int elements, const char* op, const char* where) {
    check(status, op, where);
    room_ = size_t(std::max(elements, 1)) * size_t(s_.size());
  }

  void cholesky(const Piece& x) {
    const auto f = for_type(s_.type, l_.spotrf, l_.dpotrf, l_.cpotrf, l_.zpotrf);
    check(f(s_.handle, upper_, int(n_), static_cast<void**>(x.place(0, 8)), int(n_), x.info(1), int(x.count)),
          x.at.op, "cusolverDnXpotrfBatched");
  }

  // The newer function where it is there; rotations for matrices that one block can hold; else one after the other.
  void measure_eigh(const Constants& c) {
    newer_ = newer_of(c);
    if (newer_) {
      run_ = &Batch::eigh;
      check(newer_->syev_room(s_.handle, s_.settings, vectors_, upper_, n_, s_.type, nullptr, n_, s_.real, nullptr,
                              s_.type, &room_, &host_room_, most_), c.op, "cusolverDnXsyevBatched_bufferSize");
    } else if (n_ <= 32) {
      run_ = &Batch::eigh_by_turns;
      int elements = 0;
      const auto f = for_type(s_.type, l_.ssyevj_room, l_.dsyevj_room, l_.csyevj_room, l_.zsyevj_room);
      const Status status = f(s_.handle, vectors_, upper_, int(n_), nullptr, int(n_), nullptr, &elements, l_.turns,
                              int(most_));
      measured(status, elements, c.op, "cusolverDnXsyevjBatched_bufferSize");
    } else {
      run_ = &Batch::eigh_one_by_one;
      check(s_.l.syevd_room(s_.handle, s_.settings, vectors_, upper_, n_, s_.type, nullptr, n_, s_.real, nullptr,
                            s_.type, &room_, &host_room_), c.op, "cusolverDnXsyevd_bufferSize");
    }
  }
  void eigh(const Piece& x) {
    check(newer_->syev(s_.handle, s_.settings, vectors_, upper_, n_, s_.type, x.place(0, matrix()), n_, s_.real,
                       x.place(1, values()), s_.type, x.at.room(), room_, host_.data(), host_room_, x.info(2),
                       x.count), x.at.op, "cusolverDnXsyevBatched");
  }
  void eigh_by_turns(const Piece& x) {
    const auto f = for_type(s_.type, l_.ssyevj, l_.dsyevj, l_.csyevj, l_.zsyevj);
    check(f(s_.handle, vectors_, upper_, int(n_), x.place(0, matrix()), int(n_), x.place(1, values()), x.at.room(),
            length(), x.info(2), l_.turns, int(x.count)), x.at.op, "cusolverDnXsyevjBatched");
  }
  void eigh_one_by_one(const Piece& x) {
    for (int64_t k = x.first; k < x.first + x.count; ++k) {
      const Piece one{x.at, k, 1};
      check(s_.l.syevd(s_.handle, s_.settings, vectors_, upper_, n_, s_.type, one.place(0, matrix()), n_, s_.real,
                       one.place(1, values()), s_.type, x.at.room(), room_, host_.data(), host_room_, one.info(2)),
            x.at.op, "cusolverDnXsyevd");
    }
  }

  void measure_svd(const char* op) {
    run_ = &Batch::svd;
    int elements = 0;
    const int m = int(m_), n = int(n_);
    const auto f = for_type(s_.type, l_.sgesvdj_room, l_.dgesvdj_room, l_.cgesvdj_room, l_.zgesvdj_room);
    const Status status = f(s_.handle, vectors_, m, n, nullptr, m, nullptr, nullptr, m, nullptr, n, &elements,
                            l_.svd_turns, int(most_));
    measured(status, elements, op, "cusolverDnXgesvdjBatched_bufferSize");
  }
  void svd(const Piece& x) {
    const int m = int(m_), n = int(n_);
    const auto f = for_type(s_.type, l_.sgesvdj, l_.dgesvdj, l_.cgesvdj, l_.zgesvdj);
    check(f(s_.handle, vectors_, m, n, x.place(0, matrix()), m, x.place(1, values()), x.place(2, m_ * m_ * s_.size()),
            m, x.place(3, n_ * n_ * s_.size()), n, x.at.room(), length(), x.info(4), l_.svd_turns, int(x.count)),
          x.at.op, "cusolverDnXgesvdjBatched");
  }
};

}  // namespace

std::unique_ptr<LibraryCall> make_cusolver_batch(int device, const Constants& constants) {
  return std::make_unique<Batch>(device, constants);
}

}  // namespace flambeau::cuda

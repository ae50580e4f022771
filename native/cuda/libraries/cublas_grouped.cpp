// cuBLAS: products of groups of rows, columns or what is summed over, whose sizes lie on the device. The CPU waits for
// these, since the library wants them there; then all groups are one call.
#include <array>

#include "cublas.h"

namespace flambeau::cuda {
namespace {

using namespace cublas;
enum { kNotSupported = 15 };

// clang-format off
#define FUNCTIONS(X)                                                                                                   \
  X(grouped, Status, "cublasGemmGroupedBatchedEx_64",                                                                  \
    (Handle*, const int* a_transposed, const int* b_transposed, const int64_t* m, const int64_t* n, const int64_t* k,  \
     const void* alphas, const void* const* a, int a_type, const int64_t* lda, const void* const* b, int b_type,       \
     const int64_t* ldb, const void* betas, void* const* c, int c_type, const int64_t* ldc, int64_t groups,            \
     const int64_t* products, int computes))
// clang-format on

struct Library {
  FLAMBEAU_LIBRARY(FUNCTIONS)
};
Library& library_of(const Constants& c) {
  if (!library_has(kName, "cublasGemmGroupedBatchedEx_64", c))
    throw Unsupported(concat(c.op, ": this cuBLAS has no products of groups"));
  static Library* opened = open_table<Library>(kName, c);
  return *opened;
}

// A matrix of each group, by columns: its step, and how many bytes further it begins for each group before it and for
// each row or column of these.
struct Side {
  bool transposed;
  int64_t step, group, start;
  Side(const Constants& c, std::string_view name)
      : transposed(c.list(name).at(0) != 0), step(c.list(name).at(1)), group(c.list(name).at(2)),
        start(c.list(name).at(3)) {}
  Address at(Address base, int64_t g, int64_t begin) const { return base + Address(g * group + begin * start); }
};

// Operands: A, B, C, where groups end, room for three addresses of each group. Of m, n and k one is -1: the size of a
// group. A group that ends before it begins has none, and none goes further than `length`.
class Grouped final : public LibraryCall {
 public:
  Grouped(int device, const Constants& c)
      : l_(library_of(c)), handle_(handle_of(device, c)), a_(c, "a"), b_(c, "b"), c_(c, "c"),
        groups_(c.integer("groups")), length_(c.integer("length")),
        sizes_{c.integer("m"), c.integer("n"), c.integer("k")}, type_(cuda_type(c.word("dtype"), c)),
        computes_(type_ == 1 ? 70 : c.integer("tf32") != 0 ? 77 : 68) {
    workspace = workspace_of(device);
  }

  void run(const LibrarySite& at) override {
    if (capturing(at.stream))
      throw Unsupported(concat(at.op, ": the sizes of groups cannot be read while work is recorded"));
    find_groups(at);
    const size_t count = depth_.size();
    if (!count) return;
    follow(handle_, at, workspace);
    const std::vector<int> turn_a(count, a_.transposed), turn_b(count, b_.transposed);
    const std::vector<int64_t> lda(count, a_.step), ldb(count, b_.step), ldc(count, c_.step), one(count, 1);
    // alpha and beta of each group, in float or double
    const std::vector<float> ones(count, 1), zeros(count, 0);
    const std::vector<double> wide_ones(count, 1), wide_zeros(count, 0);
    const void* alphas = type_ == 1 ? static_cast<const void*>(wide_ones.data()) : ones.data();
    const void* betas = type_ == 1 ? static_cast<const void*>(wide_zeros.data()) : zeros.data();
    const Address room = at.operands[4];
    cuda::check(driver().copy_to_device(room, places_.data(), places_.size() * 8, at.stream), at.op);
    auto** places = reinterpret_cast<void**>(room);
    const Status status =
        l_.grouped(handle_, turn_a.data(), turn_b.data(), rows_.data(), columns_.data(), depth_.data(), alphas, places,
                   type_, lda.data(), places + count, type_, ldb.data(), betas, places + 2 * count, type_, ldc.data(),
                   int64_t(count), one.data(), computes_);
    if (status == kNotSupported) throw Unsupported(concat(at.op, ": cuBLAS has no such product of groups"));
    cublas::check(status, at.op, "cublasGemmGroupedBatchedEx_64");
  }

 private:
  Library& l_;
  Handle* const handle_;
  const Side a_, b_, c_;
  const int64_t groups_, length_;
  const std::array<int64_t, 3> sizes_;
  const int type_, computes_;
  // Of the groups that have elements.
  std::vector<int64_t> rows_, columns_, depth_;
  std::vector<Address> places_;

  void find_groups(const LibrarySite& at) {
    std::vector<int32_t> ends(static_cast<size_t>(groups_));
    about_to_wait(at.op);
    cuda::check(driver().copy_to_host(ends.data(), at.operands[3], ends.size() * 4, at.stream), at.op);
    synchronize_stream(at.device, at.stream, at.op);
    rows_.clear(), columns_.clear(), depth_.clear();
    std::vector<Address> a, b, c;
    for (int64_t g = 0, begin = 0; g < groups_; ++g) {
      const int64_t end = std::clamp<int64_t>(ends[size_t(g)], begin, length_), size = end - begin;
      if (size) {
        rows_.push_back(sizes_[0] < 0 ? size : sizes_[0]);
        columns_.push_back(sizes_[1] < 0 ? size : sizes_[1]);
        depth_.push_back(sizes_[2] < 0 ? size : sizes_[2]);
        a.push_back(a_.at(at.operands[0], g, begin));
        b.push_back(b_.at(at.operands[1], g, begin));
        c.push_back(c_.at(at.operands[2], g, begin));
      }
      begin = end;
    }
    places_ = std::move(a);
    places_.insert(places_.end(), b.begin(), b.end());
    places_.insert(places_.end(), c.begin(), c.end());
  }
};

}  // namespace

std::unique_ptr<LibraryCall> make_cublas_grouped(int device, const Constants& constants) {
  return std::make_unique<Grouped>(device, constants);
}

}  // namespace flambeau::cuda

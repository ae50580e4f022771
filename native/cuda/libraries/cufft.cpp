// cuFFT: Fourier transforms of up to three dimensions at once, over batches that lie one behind the other.
#include "calls.h"

namespace flambeau::cuda {
namespace {

constexpr const char* kName = "cuFFT";
using Status = int;
using Plan = int;
enum { kReal = 0x2a, kToReal = 0x2c, kComplex = 0x29, kWide = 0x40 };  // single precision; kWide makes them double

// clang-format off
#define FUNCTIONS(X)                                                                                                   \
  X(create, Status, "cufftCreate", (Plan*))                                                                            \
  X(destroy, Status, "cufftDestroy", (Plan))                                                                           \
  X(allocation, Status, "cufftSetAutoAllocation", (Plan, int on))                                                      \
  X(make, Status, "cufftMakePlanMany64",                                                                               \
    (Plan, int rank, long long* n, long long* inside, long long step, long long distance, long long* out_inside,       \
     long long out_step, long long out_distance, int type, long long batch, size_t* workspace))                        \
  X(set_stream, Status, "cufftSetStream", (Plan, Stream))                                                              \
  X(set_workspace, Status, "cufftSetWorkArea", (Plan, void*))                                                          \
  X(c2c, Status, "cufftExecC2C", (Plan, void* x, void* out, int direction))                                            \
  X(z2z, Status, "cufftExecZ2Z", (Plan, void* x, void* out, int direction))                                            \
  X(r2c, Status, "cufftExecR2C", (Plan, void* x, void* out))                                                           \
  X(d2z, Status, "cufftExecD2Z", (Plan, void* x, void* out))                                                           \
  X(c2r, Status, "cufftExecC2R", (Plan, void* x, void* out))                                                           \
  X(z2d, Status, "cufftExecZ2D", (Plan, void* x, void* out))
// clang-format on

struct Library {
  FLAMBEAU_LIBRARY(FUNCTIONS)
};
Library& library_of(const Constants& constants) {
  static Library* opened = open_table<Library>(kName, constants);
  return *opened;
}

// The library has no function that names its status.
const char* name_of(Status s) {
  switch (s) {
    case 1: return "CUFFT_INVALID_PLAN";
    case 2: return "CUFFT_ALLOC_FAILED";
    case 3: return "CUFFT_INVALID_TYPE";
    case 4: return "CUFFT_INVALID_VALUE";
    case 5: return "CUFFT_INTERNAL_ERROR";
    case 6: return "CUFFT_EXEC_FAILED";
    case 7: return "CUFFT_SETUP_FAILED";
    case 8: return "CUFFT_INVALID_SIZE";
    case 16: return "CUFFT_NOT_SUPPORTED";
    default: return nullptr;
  }
}
void check(Status s, const char* op, const char* where) {
  if (__builtin_expect(s != 0, 0)) library_failed(op, kName, name_of(s), s, where);
}

class Transform final : public LibraryCall {
 public:
  Transform(const Constants& c)
      : l_(library_of(c)), kind_(c.word("kind")), wide_(c.integer("wide") != 0),
        direction_(c.integer("forward") ? -1 : 1) {
    check(l_.create(&plan_), c.op, "cufftCreate");
    try {
      check(l_.allocation(plan_, 0), c.op, "cufftSetAutoAllocation");
      std::vector<long long> n(c.list("sizes").begin(), c.list("sizes").end());
      const int type = (kind_ == "c2c" ? kComplex : kind_ == "r2c" ? kReal : kToReal) + (wide_ ? kWide : 0);
      check(l_.make(plan_, int(n.size()), n.data(), nullptr, 1, 0, nullptr, 1, 0, type, c.integer("batch"), &workspace),
            c.op, "cufftMakePlanMany64");
    } catch (...) {
      l_.destroy(plan_);
      throw;
    }
  }
  ~Transform() override { l_.destroy(plan_); }

  void run(const LibrarySite& at) override {
    check(l_.set_stream(plan_, at.stream), at.op, "cufftSetStream");
    if (workspace) check(l_.set_workspace(plan_, at.room()), at.op, "cufftSetWorkArea");
    void *x = at.pointer(0), *out = at.pointer(1);
    if (kind_ == "c2c") check((wide_ ? l_.z2z : l_.c2c)(plan_, x, out, direction_), at.op, "cufftExecC2C");
    else if (kind_ == "r2c") check((wide_ ? l_.d2z : l_.r2c)(plan_, x, out), at.op, "cufftExecR2C");
    else check((wide_ ? l_.z2d : l_.c2r)(plan_, x, out), at.op, "cufftExecC2R");
  }

 private:
  Library& l_;
  const std::string kind_;
  const bool wide_;
  const int direction_;
  Plan plan_ = 0;
};

}  // namespace

// Operands: x, out, both in row-major order; a transform to real numbers may overwrite x.
std::unique_ptr<LibraryCall> make_cufft_transform(int, const Constants& constants) {
  return std::make_unique<Transform>(constants);
}

}  // namespace flambeau::cuda

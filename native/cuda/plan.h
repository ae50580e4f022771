// Launch plans: what a call on CUDA tensors does, made in Python once per signature and repeated without it.
//
// A pointwise call's signature has no sizes: its plan is a kernel and how many elements a thread takes. Of all other
// calls the sizes, strides and numbers are part of it, and the plan is a list of steps.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "../core/call.h"
#include "../kernels/pointwise.h"
#include "driver.h"
#include "library.h"

namespace flambeau::cuda {

// --- pointwise -------------------------------------------------------------------------------------------------------

inline constexpr int kOperands = pointwise::kMaxOperands - 1;  // without the result
// Repeated: a tensor with one element for all of the innermost dimension. Across: one that runs along the other
// dimension of a tile.
enum class OperandKind : uint8_t { Tensor, Number, Absent, Repeated, Across };
enum class ScalarKind : uint8_t { Absent, Text, Bool, Int, Float, Complex };
// Flat: every tensor is one run in the order of the result. Packed: along the innermost dimension tensors are runs or
// repeat. Tiled: some run along another dimension than the result. Strided: anything else.
enum class Form : uint8_t { Flat, Strided, Packed, Tiled };

// The signature; bytes that are not used are zero.
struct PointwiseKey {
  const void* row = nullptr;  // names the operator
  struct Operand {
    OperandKind kind;
    DType dtype, loop_dtype;
  } operand[kOperands] = {};
  uint8_t count = 0;  // of operands
  DType compute{}, loop_out{}, result{};
  Form form = Form::Flat;
  bool wide = false;
  uint8_t pack = 0;  // Flat: whether addresses allow 16 bytes at once; Packed, Tiled: how many neighbours are read
  uint8_t device = 0, scalars = 0;
  struct {
    ScalarKind kind;
    char value;  // of texts (the first letter) and booleans
  } scalar[pointwise::kMaxScalars] = {};
};
static_assert(sizeof(PointwiseKey) == 48);

struct PointwisePlan {
  Function function = nullptr;
  int vector = 1;   // elements per thread; Tiled: elements along a side of a tile
  int threads = 0;  // per block
};

// --- other rows ------------------------------------------------------------------------------------------------------

struct Parameter {
  enum Kind : uint8_t { Pointer, Scratch, Number, Seed } kind;
  int index = 0;       // of the tensor or the scratch memory
  int64_t offset = 0;  // in bytes; of Seed: by how much the generator goes on
  std::string bytes;   // of a number
};
struct Step {
  enum Kind : uint8_t { Launch, Fill, Copy, Library, Check } kind;
  Function function = nullptr;
  std::array<unsigned, 3> grid{}, block{};
  unsigned shared = 0;
  // Of Fill: where; of Copy: to, from; of Library: operands, then its workspace; of Check: where.
  std::vector<Parameter> parameters;
  int value = 0;       // of Fill the byte; of Check, whether there is a batch
  int64_t nbytes = 0;  // of Check: how many numbers of 32 bits
  std::string api;     // of Check: the function that errors name
  std::shared_ptr<LibraryCall> call;
};
struct RowPlan {
  std::vector<Step> steps;
  std::vector<size_t> scratch;
  bool draws = false;
  LibraryUse use = LibraryUse::All;  // before it is made: how much it may ask of libraries
};
inline constexpr size_t kMostScratch = 64;   // pieces of scratch memory


// --- making them (bind/cuda_plans.cpp asks Python) -------------------------------------------------------------------

// The kernel of that name in a module; the image is loaded once per device. `digest` tells images apart.
Function kernel_of(int device, const std::string& digest, const std::string& image, const std::string& name,
                   unsigned shared);

// A kernel that no signature names, by the family that makes it and what that is told; asked for once per device.
Function named_kernel(int device, const char* family, const std::string& key);

// --- using them ------------------------------------------------------------------------------------------------------

void run_pointwise(Call& c, Pointwise& w);               // the device table's `pointwise`
void run_pointwise_short(const Call& c, const ShortCall& s);  // its `pointwise_short`
void run_row(Call& c);                      // its `otherwise`
void copy_strided(Tensor& dst, const Tensor& src);       // on one device, shapes equal
void fill_strided(Tensor& dst, const char* value);       // one element of dst's dtype
struct PlanCounts {
  int64_t pointwise = 0, rows = 0, modules = 0, made = 0, launches = 0, libraries = 0;
};
PlanCounts& plan_counts();
void forget_plans();

}  // namespace flambeau::cuda

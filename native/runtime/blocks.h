// Block programs: a group of pointwise calls, and of reductions along rows, that runs over blocks small enough for the
// first-level cache.
//
// Each call is an instruction, whose loop is the one it has when it runs alone, or a step of a chain that rounds as
// that loop does: results are the same to the bit.
// Between two instructions a block stays in a register: a few kilobytes that are used again and again. Memory is read
// where an input comes in and written where a result is wanted outside the group, and nowhere else. With reductions of
// the last dimension a block is as many whole rows as fit, and values of one number per row are cells of their own.
#pragma once
#include <memory>
#include <span>

#include "../kernels/pointwise.h"
#include "../kernels/row_folds.h"
#include "chains.h"
#include "plan.h"

namespace flambeau {

inline constexpr int kMostMemory = 16;        // inputs and results of one group
inline constexpr int kMostInstructions = 64;
inline constexpr int64_t kScratch = 28 << 10;  // bytes of blocks in use at once, below the first-level cache's size

// A group as it runs over tensors of certain layouts.
struct BlockCode {
  // Where an operand of an instruction is: a cell. Cells are inputs, registers, or numbers.
  enum class Kind : uint8_t { Input, Register, Number, Absent };
  struct Cell {
    Kind kind;
    DType dtype = DType::Undefined;
    int memory = -1;      // Input: which operand of the space; Register: the result that is written there, if any
    int buffer = -1;      // which piece of scratch memory; inputs that must be packed and registers have one
    bool constant = false, filled = false;  // one number everywhere; laid out as a block for loops that want it so
    bool per_row = false;                   // one number for each row
    bool same_rows = false;                 // Input: every row is the same one
    bool late = false;                      // Register: its memory is written when the block is done
    const PlanArg* number = nullptr;        // Number: where it stands
    int from = -1;        // Number that is an input's only element, converted: the input's cell
  };
  enum class What : uint8_t { Loop, Convert, Fold, Spread };  // Spread: a number per row over the row
  struct Instruction {
    What what = What::Loop;
    bool per_row = false;   // of one number for each row
    bool by_row = false;    // row after row: some operands are one number for each
    LoopFn loop = nullptr;
    DType compute{};        // of a loop: what its formula computes in
    RowFold fold = nullptr;
    Cast cast;
    const PlanCall* call = nullptr;
    int to = -1, count = 0, scalars = 0;
    int from[pointwise::kMaxOperands] = {};
  };
  struct Buffer {
    int item;
    bool per_row;
  };
  struct Result {
    std::vector<int64_t> sizes, strides;
    DType dtype;
    Device device;
  };
  std::vector<TensorRef> made_for;  // by input, without memory
  std::vector<int64_t> seen_as;     // the layouts in which the group sees values of its own
  bool possible = false;
  Strided<kMostMemory> space;
  std::vector<Result> results;      // by result of the group
  std::vector<int> may_take;        // by result: the input where it may lie, if that ends here, or -1
  std::vector<int> inputs;          // of the group, that are read: operands of the space, behind results and stores
  std::vector<Cell> cells;
  std::vector<Instruction> code;
  std::vector<BlockChain> chains;   // of the code, in its order
  bool one_chain = false;           // and nothing else
  std::vector<Buffer> buffers;
  int64_t numel = 0, block = 0;
  int64_t columns = 0;              // of a row; 0: no reductions
  int weight = 0;
};

// Where the group cannot be one for the layouts that come, its calls run one by one.
struct BlockStep final : Step {
  int leader;                  // the call whose result has the group's shape
  std::vector<int> results;    // values that are needed outside
  std::vector<PlanArg> inputs; // the tensors that come from outside the group, each once
  struct Store {
    int value, input;          // which value is written to which of the inputs
  };
  std::vector<Store> stores;
  std::vector<PlanArg> own;    // values of the group, as its calls see them in another shape
  std::shared_ptr<const BlockCode> code;  // of the last layouts

  BlockStep(std::vector<PlanCall> calls, int leader, std::vector<int> results);
  void run(PlanRun& r) override;
  std::string text() const override;
};

inline bool same_argument(const PlanArg& a, const PlanArg& b) {
  return a.kind == b.kind && a.at == b.at && a.of == b.of;
}
// The code as one kernel of a device that is not the CPU; `memory`: results, stores, inputs, as in the code's space.
// Filled by what knows such a device; null: groups run call by call there.
using DeviceGroup = void (*)(const BlockCode& code, const PlanRun& r, Device device, std::span<char* const> memory);
extern DeviceGroup device_groups[kDeviceTypes];

// The group over these tensors (blocks_making.cpp).
std::shared_ptr<BlockCode> block_code(const BlockStep& group, PlanRun& r, const std::vector<Tensor*>& tensors);

}  // namespace flambeau

// Block programs: a group of pointwise calls that runs over blocks small enough for the first-level cache.
//
// Each call is an instruction, whose loop is the one it has when it runs alone, so results are the same to the bit.
// Between two instructions a block stays in a register: a few kilobytes that are used again and again. Memory is read
// where an input comes in and written where a result is wanted outside the group, and nowhere else.
#pragma once
#include "../kernels/pointwise.h"
#include "plan.h"

namespace flambeau {

inline constexpr int kMostMemory = 16;        // inputs and results of one group
inline constexpr int kMostInstructions = 64;

struct BlockStep final : Step {
  // Where an operand of an instruction is: a cell. Cells are inputs, registers, or numbers.
  enum class Kind : uint8_t { Input, Register, Number, Absent };
  struct Cell {
    Kind kind;
    DType dtype = DType::Undefined;
    int memory = -1;      // Input: which operand of the space; Register: the result that is written there, if any
    int buffer = -1;      // which piece of scratch memory; inputs that must be packed and registers have one
    bool constant = false, filled = false;  // one number everywhere; laid out as a block for loops that want it so
    int entry = -1, arg = -1;               // Number: where it stands
    int from = -1;        // Number that is an input's only element, converted: the input's cell
  };
  struct Instruction {
    LoopFn loop = nullptr;  // null: a conversion
    Cast cast;
    int entry = -1, to = -1, count = 0, scalars = 0;
    int from[pointwise::kMaxOperands] = {};
    const ElementwiseRow* row = nullptr;
  };
  Strided<kMostMemory> space;
  std::vector<PlanUse> results;  // by position in `makes`
  std::vector<Cell> cells;
  std::vector<Instruction> code;
  std::vector<int> buffers;      // item size of each
  std::vector<std::string> names;
  int64_t numel = 0, block = 0;
  int weight = 0;

  void run(PlanRun& r) override;
  std::string text(const Plan& plan) const override;
};

// The group of these entries, in order, over the shape of the leader's result; `wanted`: the slots that are needed
// outside. Null: it is too large.
std::unique_ptr<BlockStep> block_step(const Program& p, Plan& plan, const std::vector<int>& entries, int leader,
                                      const std::vector<int>& wanted);

}  // namespace flambeau

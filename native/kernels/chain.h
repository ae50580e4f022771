// Chains: several arithmetic operators over arrays of one length, with the values between them in vector registers.
//
// A chain works on one accumulator, a tile of a few vectors. Every step takes the accumulator and one operand and
// leaves the accumulator; tile after tile goes through all steps. So an operator costs one load where a loop of its own
// would cost two loads and a store. Each step rounds as the operator's own loop does (no product is fused with a sum).
#pragma once
#include <cstdint>
#include <string_view>

#include "../core/dtype.h"

namespace flambeau {

enum class ChainOp : uint8_t {
  None, Store,                        // the end; the accumulator is written to the operand
  Load, Add, Sub, Mul, Div,           // accumulator on the left, operand on the right
  SubFrom, DivInto,                   // the other way round
  Square, Neg, Relu, Sqrt,            // of the accumulator
};

struct ChainLoop;
// The operand is an array, one number for all elements, or one tile that each tile of the arrays writes anew.
struct ChainStep {
  void (*run)();     // what it does with a tile, and then the next step: of a type that kernels/simd/chain.cpp knows
  int64_t advances;  // ~0: an array
  char* at;
  int code;
  ChainStep() = default;  // nothing: arrays of steps cost what is used of them
  ChainStep(const ChainLoop& of, ChainOp op, char* at, bool number, bool tile);
};

inline constexpr int64_t kChainTile = 128;  // elements; what is left is for the operators' own loops
inline constexpr int kChainCodes = 2 * (int(ChainOp::Sqrt) + 1);
constexpr int chain_code(ChainOp op, bool number) { return 2 * int(op) + number; }

// The chains of one dtype.
struct ChainLoop {
  void (*steps[kChainCodes])();               // by operator, and whether it is beside a number
  void (*pairs[kChainCodes][kChainCodes])();  // two steps as one, which saves a jump; null: there is none
  // Two steps as one wherever there is such a pair.
  void join(ChainStep* steps) const {
    for (; steps->code && steps[1].code; ++steps)
      if (const auto both = pairs[steps->code][steps[1].code]) steps++->run = both;
  }
  // Goes through the steps up to the first None. n is a multiple of kChainTile. Arrays are the same or do not overlap.
  void (*go)(const ChainStep* steps, int64_t n);
};
inline ChainStep::ChainStep(const ChainLoop& of, ChainOp op, char* at, bool number, bool tile)
    : run(of.steps[chain_code(op, number)]), advances(tile ? 0 : ~int64_t(0)), at(at), code(chain_code(op, number)) {}

struct ChainKernels {
  ChainLoop f32, f64;
};
// Filled at load time by kernels/simd/chain.cpp, one for each instruction set. `made` runs only where the processor has
// `level`: the file that defines it is compiled with those instructions.
struct ChainRegistration {
  ChainRegistration(int level, ChainKernels (*made)());
};

// The best loop of this processor; null: there is none for the dtype.
const ChainLoop* chain_loop(DType dtype);
// The step that an operator of one or two operands is, with the accumulator on the left; None: it is none.
ChainOp chain_op(std::string_view name);

}  // namespace flambeau

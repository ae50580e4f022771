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

// The operand is an array, one number for all elements, or one tile that each tile of the arrays writes anew.
struct ChainStep {
  uint8_t code;
  int64_t advances;  // ~0: an array
  char* at;
  ChainStep() = default;  // nothing: arrays of steps cost what is used of them
  ChainStep(ChainOp op, char* at, bool number, bool tile)
      : code(uint8_t(int(op) * 2 + number)), advances(tile ? 0 : ~int64_t(0)), at(at) {}
};

// Goes through the steps up to the first None. n is a multiple of kChainTile. Arrays are the same or do not overlap.
using ChainLoop = void (*)(const ChainStep* steps, int64_t n);
inline constexpr int64_t kChainTile = 128;  // elements; what is left is for the operators' own loops

struct ChainKernels {
  ChainLoop f32, f64;
};
extern const ChainKernels* chain_kernels[2];

// The best loop of this processor; null: there is none for the dtype.
ChainLoop chain_loop(DType dtype);
// The step that an operator of one or two operands is, with the accumulator on the left; None: it is none.
ChainOp chain_op(std::string_view name);

}  // namespace flambeau

// Chains of a block program: instructions in a row that go through the block tile by tile (kernels/chain.h).
#pragma once
#include <vector>

#include "../kernels/chain.h"

namespace flambeau {

struct BlockCode;

struct BlockChain {
  struct Step {
    ChainOp op;
    int cell = -1;  // the operand
  };
  int first = 0, last = 0;  // instructions
  bool by_row = false;      // row after row: some operands are one number for each
  const ChainLoop* loop = nullptr;
  std::vector<Step> steps;
};

// The chains of a program whose cells have their places.
std::vector<BlockChain> find_chains(const BlockCode& code);

}  // namespace flambeau

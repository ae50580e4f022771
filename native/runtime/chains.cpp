// Which instructions of a block program become chains, and when a value in between is written at all.
#include "chains.h"

#include "blocks.h"

namespace flambeau {
namespace {

using Instruction = BlockCode::Instruction;

struct Finder {
  const BlockCode& code;

  DType dtype(const Instruction& i) const { return code.cells[size_t(i.to)].dtype; }
  ChainOp op(const Instruction& i) const {
    if (i.what != BlockCode::What::Loop || i.per_row || !chain_loop(dtype(i))) return ChainOp::None;
    if (i.by_row && code.columns < kChainTile) return ChainOp::None;
    for (int k = 1; k < i.count; ++k)
      if (code.cells[size_t(i.from[k])].dtype != dtype(i)) return ChainOp::None;
    return chain_op(i.call->op->elementwise->name);
  }
  // Whether something but the left or right operand of the next instruction of the chain needs the value.
  bool needed(int at, int last) const {
    const int cell = code.code[size_t(at)].to;
    if (code.cells[size_t(cell)].memory >= 0 || at + 1 == last) return true;
    for (size_t j = size_t(at) + 1; j < code.code.size(); ++j) {
      const Instruction& i = code.code[j];
      const auto reads = std::count(i.from + 1, i.from + i.count, cell);
      if (reads && (int(j) > at + 1 || (reads > 1 && op(i) != ChainOp::Mul))) return true;
    }
    return false;
  }
  static ChainOp turned(ChainOp op) {
    switch (op) {
      case ChainOp::Sub: return ChainOp::SubFrom;
      case ChainOp::SubFrom: return ChainOp::Sub;
      case ChainOp::Div: return ChainOp::DivInto;
      default: return op;
    }
  }
  BlockChain chain(int first, int last) const {
    BlockChain c{first, last, false, chain_loop(dtype(code.code[size_t(first)])), {}};
    int held = -1;  // the cell in the accumulator
    for (int at = first; at < last; ++at) {
      const Instruction& i = code.code[size_t(at)];
      const ChainOp what = op(i);
      c.by_row |= i.by_row;
      const int a = i.from[1], b = i.count > 2 ? i.from[2] : -1;
      const bool turn = b >= 0 && b == held && a != held;
      if (a != held && !turn) c.steps.push_back({ChainOp::Load, a});
      if (a == b && what == ChainOp::Mul) c.steps.push_back({ChainOp::Square, -1});
      else c.steps.push_back({turn ? turned(what) : what, turn ? a : b});
      held = i.to;
      if (needed(at, last)) c.steps.push_back({ChainOp::Store, held});
    }
    return c;
  }
};

}  // namespace

std::vector<BlockChain> find_chains(const BlockCode& code) {
  const Finder finder{code};
  std::vector<BlockChain> chains;
  const int count = int(code.code.size());
  for (int first = 0, last; first < count; first = std::max(last, first + 1)) {
    last = first;
    while (last < count && finder.op(code.code[size_t(last)]) != ChainOp::None &&
           finder.dtype(code.code[size_t(last)]) == finder.dtype(code.code[size_t(first)]))
      ++last;
    if (last - first > 1) chains.push_back(finder.chain(first, last));
  }
  return chains;
}

}  // namespace flambeau

// Rows put together from pieces of several sources: what cat, stack and roll copy.
#pragma once
#include <span>
#include <vector>

#include "../core/call.h"

namespace flambeau {

struct RowPiece {
  const char* from;
  int64_t bytes, at, step;  // so many bytes of every row, where in the row, and how far the source's rows are apart
};

// A few pieces need no allocation.
struct RowPieces {
  RowPiece few[8];
  std::vector<RowPiece> many;
  RowPiece* place;
  size_t count = 0;
  explicit RowPieces(size_t most) : many(most > std::size(few) ? most : 0), place(many.empty() ? few : many.data()) {}
  void add(const RowPiece& p) { place[count++] = p; }
  std::span<const RowPiece> all() const { return {place, count}; }
};

// out is [outer, pitch bytes]; piece p occupies bytes [at, at + bytes) of every row.
void copy_pieces(char* out, int64_t outer, int64_t pitch, int64_t item, std::span<const RowPiece> pieces);

}  // namespace flambeau

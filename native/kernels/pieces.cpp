#include "pieces.h"

#include <algorithm>
#include <array>

#include "options.h"
#include "strided.h"

namespace flambeau {
namespace {

constexpr int64_t kGrain = 1 << 18;  // bytes a thread should have to copy at least
constexpr int64_t kNarrow = 256;     // bytes of a piece that is moved row by row

// Pieces of one element each: every row is N elements, one of each source.
template <class T, size_t N>
void interleave(char* out, std::span<const RowPiece> pieces, int64_t begin, int64_t end) {
  std::array<const T*, N> from;
  for (size_t k = 0; k < N; ++k) from[k] = reinterpret_cast<const T*>(pieces[k].from);
  T* to = reinterpret_cast<T*>(out);
  for (int64_t row = begin; row < end; ++row)
    for (size_t k = 0; k < N; ++k) to[row * int64_t(N) + int64_t(k)] = from[k][row];
}
// Pieces of few bytes: block by block of rows that stay in a cache, one piece after the other.
template <class T>
void spread(char* out, int64_t pitch, std::span<const RowPiece> pieces, int64_t begin, int64_t end) {
  const int64_t block = std::max<int64_t>(16, 16384 / pitch);
  for (int64_t first = begin; first < end; first += block)
    for (const RowPiece& p : pieces)
      move_rows<T>(out + p.at + first * pitch, sizeof(T), pitch, p.from + first * p.step, sizeof(T), p.step,
                   p.bytes / int64_t(sizeof(T)), std::min(block, end - first));
}
template <class T>
void copy_narrow_pieces(char* out, int64_t pitch, std::span<const RowPiece> pieces, int64_t begin, int64_t end) {
  bool single = int64_t(pieces.size() * sizeof(T)) == pitch;
  for (const RowPiece& p : pieces) single &= p.bytes == sizeof(T) && p.step == sizeof(T);
  if (single && pieces.size() == 2) return interleave<T, 2>(out, pieces, begin, end);
  if (single && pieces.size() == 3) return interleave<T, 3>(out, pieces, begin, end);
  if (single && pieces.size() == 4) return interleave<T, 4>(out, pieces, begin, end);
  spread<T>(out, pitch, pieces, begin, end);
}

}  // namespace

void copy_pieces(char* out, int64_t outer, int64_t pitch, int64_t item, std::span<const RowPiece> pieces) {
  LockRelease lock(outer * pitch / 4);
  if (outer == 1) {
    for (const RowPiece& p : pieces)
      parallel_for(p.bytes, kGrain, [&](int64_t a, int64_t b) { move_bytes(out + p.at + a, p.from + a, b - a); });
    return;
  }
  bool narrow = true;
  for (const RowPiece& p : pieces) narrow &= p.bytes <= kNarrow;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(pitch, 1));
  if (narrow)
    return visit_size(item, [&]<class T>() {
      parallel_for(outer, grain, [&](int64_t a, int64_t b) { copy_narrow_pieces<T>(out, pitch, pieces, a, b); });
    });
  parallel_for(outer, grain, [&](int64_t a, int64_t b) {
    for (int64_t row = a; row < b; ++row)
      for (const RowPiece& p : pieces) move_bytes(out + row * pitch + p.at, p.from + row * p.step, p.bytes);
  });
}

}  // namespace flambeau

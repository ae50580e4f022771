// Reductions: how a tensor of any strides is walked, cut into blocks, and shared among threads.
//
// An Op sees either blocks of at most kRun consecutive elements of one output (`block`) or tiles of rows that feed
// many outputs at once (`columns`), always in its compute type. Where a reduction is cut depends on sizes alone, so
// results do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/call.h"
#include "strided.h"
#include "vector.h"
#include "views.h"

namespace flambeau {

inline constexpr int64_t kBlock = 1024;   // elements that are gathered for one Op::block
inline constexpr int64_t kRun = 4096;     // elements per Op::block where they lie side by side
inline constexpr int64_t kRows = 32;      // rows per Op::columns
inline constexpr int64_t kColumns = 1024; // columns per tile, at most
inline constexpr int64_t kFewColumns = 8; // fewer side by side, or than twice so many that cost more, are gathered
inline constexpr int64_t kCopied = 256;   // columns per tile of rows that are converted first: they stay near
inline constexpr int64_t kGrain = 32768;  // elements that are worth a thread

struct Axis {
  int64_t size, in, out;  // `in`: bytes between elements of the input; `out`: elements between results
};

struct Plan {
  int nkeep = 0, nred = 0;
  int64_t outputs = 1, length = 1;
  Axis keep[kMaxDims], red[kMaxDims];
};

inline int sort_and_merge(Axis* axes, int n, bool sort) {
  if (sort)
    for (int i = 1; i < n; ++i)
      for (int j = i; j > 0 && std::abs(axes[j - 1].in) < std::abs(axes[j].in); --j) std::swap(axes[j - 1], axes[j]);
  int m = 0;
  for (int i = 0; i < n; ++i) {
    if (m && axes[m - 1].in == axes[i].in * axes[i].size && axes[m - 1].out == axes[i].out * axes[i].size)
      axes[m - 1] = {axes[m - 1].size * axes[i].size, axes[i].in, axes[i].out};
    else axes[m++] = axes[i];
  }
  return m;
}

// mask: bit d set where dimension d is reduced. ordered: the reduced dimensions keep C order (positions matter).
inline void make_plan(Plan& p, const Tensor& x, uint64_t mask, bool ordered) {
  int64_t out = 1, item = x.itemsize();
  for (int d = x.ndim - 1; d >= 0; --d) {
    if (mask >> d & 1) {
      p.length *= x.sizes[d];
    } else {
      p.outputs *= x.sizes[d];
    }
  }
  if (x.contiguous() && p.outputs == 1) {
    p.nred = 1;
    p.red[0] = {p.length, item, 0};
    return;
  }
  int nkeep = 0, nred = 0;
  for (int d = 0; d < x.ndim; ++d) {
    if (x.sizes[d] == 1) continue;
    if (mask >> d & 1) p.red[nred++] = {x.sizes[d], x.strides[d] * item, 0};
    else p.keep[nkeep++] = {x.sizes[d], x.strides[d] * item, 0};
  }
  for (int k = nkeep - 1; k >= 0; --k) {
    p.keep[k].out = out;
    out *= p.keep[k].size;
  }
  p.nkeep = sort_and_merge(p.keep, nkeep, true);
  p.nred = sort_and_merge(p.red, nred, !ordered);
  if (p.nred == 0) p.red[p.nred++] = {1, item, 0};
}

// Where element `index` stands, counted along the axes in order: in bytes of the input, or in elements of the result.
template <int64_t Axis::*stride = &Axis::in>
inline int64_t offset_of(const Axis* axes, int n, int64_t index) {
  int64_t offset = 0;
  for (int k = n - 1; k > 0; --k) {
    int64_t q = index / axes[k].size;
    offset += (index - q * axes[k].size) * axes[k].*stride;
    index = q;
  }
  return n ? offset + index * axes[0].*stride : 0;
}

template <class T>
struct Source {
  const char* data;
  LoadFn<T> load;
  bool direct;
  int64_t item;
};

// What moves the bits of a T.
template <class T>
using Moved = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<sizeof(T) == 2, uint16_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t,
                                          std::conditional_t<sizeof(T) == 8, uint64_t, complex128>>>>;

// Elements [lo, hi) of the reduction that starts at `base`.
template <class Op, class T = typename Op::T>
void feed(const Op& op, typename Op::Acc& acc, const Source<T>& s, const Plan& p, const char* base, int64_t lo,
          int64_t hi, T* buffer) {
  const Axis& last = p.red[p.nred - 1];
  const bool runs = s.direct && last.in == int64_t(sizeof(T)) && (p.nred == 1 || last.size >= 64);
  int64_t fill = 0, start = lo;
  Poll poll;
  for (int64_t i = lo; i < hi;) {
    int64_t at = p.nred == 1 ? i : i % last.size;
    int64_t run = std::min(last.size - at, hi - i);
    const char* q = base + (p.nred == 1 ? i * last.in : offset_of(p.red, p.nred, i));
    if (runs) {
      for (int64_t k = 0; k < run; k += kRun, poll())
        op.block(acc, reinterpret_cast<const T*>(q) + k, std::min(kRun, run - k), i + k);
      i += run;
      continue;
    }
    run = std::min(run, kBlock - fill);
    const int64_t rows = at || !s.direct || p.nred == 1 ? 0 : std::min(kBlock - fill, hi - i) / last.size;
    if (rows > 1) {
      const Axis& outer = p.red[p.nred - 2];
      run = std::min(rows, outer.size - i / last.size % outer.size) * last.size;
      move_rows<Moved<T>>(reinterpret_cast<char*>(buffer + fill), sizeof(T), last.size * int64_t(sizeof(T)), q, last.in,
                          outer.in, last.size, run / last.size);
    } else {
      s.load(buffer + fill, q, last.in, run);
    }
    fill += run;
    i += run;
    poll();
    if (fill == kBlock || i == hi) {
      op.block(acc, buffer, fill, start);
      start = i;
      fill = 0;
    }
  }
}

// Rows [lo, hi) of `w` neighbouring outputs; row r starts at base + its offset, elements `step` bytes apart.
template <class Op, class T = typename Op::T>
void feed_columns(const Op& op, typename Op::Acc* acc, const Source<T>& s, const Axis* red, int nred, const char* base,
                  int64_t step, int64_t w, int64_t lo, int64_t hi, T* buffer) {
  const T* rows[kRows];
  const bool direct = s.direct && step == int64_t(sizeof(T));
  Poll poll;
  for (int64_t i = lo; i < hi; i += kRows, poll()) {
    int n = int(std::min(kRows, hi - i));
    for (int r = 0; r < n; ++r) {
      const char* q = base + (nred == 1 ? (i + r) * red[0].in : offset_of(red, nred, i + r));
      if (direct) {
        rows[r] = reinterpret_cast<const T*>(q);
      } else {
        s.load(buffer + r * w, q, step, w);
        rows[r] = buffer + r * w;
      }
    }
    op.columns(acc, rows, n, w, i);
  }
}

// Where piece k of `pieces` begins; expanded arrays are as long as int64 allows.
inline int64_t part(int64_t length, int64_t k, int64_t pieces) { return int64_t(__int128(length) * k / pieces); }

// Into how many pieces each of `units` independent reductions of `length` steps of `width` elements is cut.
inline int64_t pieces_of(int64_t units, int64_t length, int64_t width) {
  if (units >= 8 || length * width < 2 * kGrain) return 1;
  return std::clamp<int64_t>(length * width / kGrain, 1, std::min<int64_t>(64, length));
}

// Few long reductions: each is cut into pieces, whose accumulators are merged in order.
template <class Op>
void reduce_cut_rows(const Op& op, const Plan& p, const Source<typename Op::T>& s, int64_t pieces) {
  using T = typename Op::T;
  using Acc = typename Op::Acc;
  const int64_t work = std::max<int64_t>(1, p.length / pieces);
  std::vector<Acc> partial(size_t(p.outputs * pieces));
  parallel_for(p.outputs * pieces, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    alignas(64) T buffer[kBlock];
    for (int64_t u = begin; u < end; ++u) {
      int64_t out = u / pieces, k = u % pieces;
      Acc acc = op.init();
      feed(op, acc, s, p, s.data + offset_of(p.keep, p.nkeep, out), part(p.length, k, pieces),
           part(p.length, k + 1, pieces), buffer);
      partial[size_t(u)] = acc;
    }
  });
  for (int64_t o = 0; o < p.outputs; ++o) {
    Acc acc = partial[size_t(o * pieces)];
    for (int64_t k = 1; k < pieces; ++k) op.merge(acc, partial[size_t(o * pieces + k)]);
    op.store(offset_of<&Axis::out>(p.keep, p.nkeep, o), acc);
  }
}

// `n` results, `step` elements apart from place `out` on.
template <class Op>
void store_results(const Op& op, int64_t out, int64_t step, const typename Op::Acc* acc, int64_t n) {
  if constexpr (requires { op.store_run(out, step, acc, n); }) op.store_run(out, step, acc, n);
  else
    for (int64_t j = 0; j < n; ++j) op.store(out + j * step, acc[j]);
}

// Many short rows, one behind the other, are turned: as columns they fill vectors. Which ones repay it was measured.
inline constexpr int64_t kShortRow = 16, kTurned = 256;
template <class T>
bool are_short_rows(const Plan& p, const Source<T>& s) {
  const int64_t n = p.length;
  const bool pays = n <= 4 || (n < 8 && std::is_floating_point_v<T>) || (n <= 8 && sizeof(T) <= 4) ||
                    (n == 16 && (sizeof(T) <= 2 || !s.direct));
  return pays && n > 1 && p.nred == 1 && p.nkeep && p.red[0].in == s.item && p.keep[p.nkeep - 1].in == n * s.item &&
         p.keep[p.nkeep - 1].size >= kShortRow;
}
template <int64_t length, class T>
void turn(const T* x, int64_t n, T (*to)[kTurned]) {
  for (int64_t r = 0; r < length; ++r)
    for (int64_t j = 0; j < n; ++j) to[r][j] = x[j * length + r];
}
template <class Op, class T = typename Op::T>
void reduce_short_rows(const Op& op, const Source<T>& s, const char* base, int64_t length, int64_t n, int64_t out,
                       int64_t step) {
  alignas(64) T flat[kShortRow * kTurned], turned[kShortRow][kTurned];
  const T* rows[kShortRow];
  for (int64_t r = 0; r < length; ++r) rows[r] = turned[r];
  typename Op::Acc acc[kTurned];
  for (int64_t j = 0; j < n; j += kTurned) {
    const int64_t w = std::min(kTurned, n - j);
    const char* from = base + j * length * s.item;
    if (!s.direct) s.load(flat, from, s.item, w * length);
    const T* x = s.direct ? reinterpret_cast<const T*>(from) : flat;
    switch (length) {
      case 2: turn<2>(x, w, turned); break;
      case 3: turn<3>(x, w, turned); break;
      case 4: turn<4>(x, w, turned); break;
      case 5: turn<5>(x, w, turned); break;
      case 6: turn<6>(x, w, turned); break;
      case 7: turn<7>(x, w, turned); break;
      case 8: turn<8>(x, w, turned); break;
      default: turn<16>(x, w, turned); break;
    }
    std::fill_n(acc, w, op.init());
    op.columns(acc, rows, int(length), w, 0);
    store_results(op, out + j * step, step, acc, w);
  }
}

// So are blocks of a few columns, without gaps, whose results lie side by side: (n, length, columns) to (n, columns).
inline constexpr int64_t kBlockColumns = 32;  // at most
template <class T>
bool are_few_columns(const Plan& p, const Source<T>& s) {
  if (p.nred != 1 || p.nkeep < 2) return false;
  const Axis &last = p.keep[p.nkeep - 1], &block = p.keep[p.nkeep - 2];
  const bool few = last.size <= kFewColumns || last.size * int64_t(sizeof(T)) < 64;
  return few && last.size <= kBlockColumns && last.in == s.item && p.red[0].in == last.size * s.item &&
         block.in == p.length * p.red[0].in && block.out == last.size * last.out && block.size * last.size >= kShortRow;
}
template <int64_t columns, class T>
void turn_blocks(const T* x, int64_t step, int64_t n, int64_t length, T (*to)[kTurned]) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t r = 0; r < length; ++r)
      for (int64_t c = 0; c < columns; ++c) to[r][j * columns + c] = x[j * step + r * columns + c];
}
template <class T>
void turn_blocks(int64_t columns, const T* x, int64_t step, int64_t n, int64_t length, T (*to)[kTurned]) {
  switch (columns) {
    case 2: return turn_blocks<2>(x, step, n, length, to);
    case 3: return turn_blocks<3>(x, step, n, length, to);
    case 4: return turn_blocks<4>(x, step, n, length, to);
    case 5: return turn_blocks<5>(x, step, n, length, to);
    case 6: return turn_blocks<6>(x, step, n, length, to);
    case 7: return turn_blocks<7>(x, step, n, length, to);
    case 8: return turn_blocks<8>(x, step, n, length, to);
    default:
      for (int64_t j = 0; j < n; ++j)
        for (int64_t r = 0; r < length; ++r)
          std::memcpy(to[r] + j * columns, x + j * step + r * columns, size_t(columns) * sizeof(T));
  }
}
template <class Op, class T = typename Op::T>
void reduce_few_columns(const Op& op, const Plan& p, const Source<T>& s) {
  const int64_t columns = p.keep[p.nkeep - 1].size, step = p.keep[p.nkeep - 1].out, size = p.keep[p.nkeep - 2].size;
  const int64_t most = kTurned / columns, whole = p.length * columns;  // blocks at a time; elements of a block
  const int64_t units = (size + most - 1) / most, outer = p.outputs / (size * columns);
  parallel_for(outer * units, std::max<int64_t>(1, kGrain / (most * whole)), [&](int64_t begin, int64_t end) {
    alignas(64) T flat[kShortRow * kTurned], turned[kShortRow][kTurned];
    const T* rows[kShortRow];
    for (int64_t r = 0; r < kShortRow; ++r) rows[r] = turned[r];
    typename Op::Acc acc[kTurned];
    for (int64_t u = begin; u < end; ++u) {
      const int64_t first = u % units * most, n = std::min(most, size - first), w = n * columns;
      const char* base = s.data + offset_of(p.keep, p.nkeep - 2, u / units) + first * whole * s.item;
      std::fill_n(acc, w, op.init());
      for (int64_t i = 0; i < p.length; i += kShortRow) {
        const int64_t length = std::min(kShortRow, p.length - i), part = length * columns;
        const char* from = base + i * columns * s.item;
        for (int64_t j = 0; j < n && !s.direct; ++j) s.load(flat + j * part, from + j * whole * s.item, s.item, part);
        const T* x = s.direct ? reinterpret_cast<const T*>(from) : flat;
        turn_blocks(columns, x, s.direct ? whole : part, n, length, turned);
        op.columns(acc, rows, int(length), w, i);
      }
      const int64_t out = offset_of<&Axis::out>(p.keep, p.nkeep - 2, u / units) + first * columns * step;
      store_results(op, out, step, acc, w);
    }
  });
}

// Larger blocks of a few columns: several rows of a block side by side fill the vectors.
inline constexpr int64_t kFolded = 128;  // elements side by side
template <class Op>
bool are_folded_blocks(const Plan& p, const Source<typename Op::T>& s) {
  if (!Op::kFold || !s.direct || p.nred != 1 || p.nkeep < 2) return false;
  const Axis& last = p.keep[p.nkeep - 1];
  return last.in == s.item && last.size <= kFolded / 4 && p.red[0].in == last.in * last.size &&
         p.length * last.size >= 4 * kFolded;
}
template <class Op>
void reduce_folded_blocks(const Op& op, const Plan& p, const Source<typename Op::T>& s) {
  using T = typename Op::T;
  const Axis& last = p.keep[p.nkeep - 1];
  const int64_t columns = last.size, fold = kFolded / columns, w = fold * columns, steps = p.length / fold;
  const int64_t tail = p.length % fold, outer = p.outputs / columns;
  parallel_for(outer, std::max<int64_t>(1, kGrain / (p.length * columns)), [&](int64_t begin, int64_t end) {
    typename Op::Acc acc[kFolded];
    const T* rows[kRows];
    for (int64_t o = begin; o < end; ++o) {
      const T* x = reinterpret_cast<const T*>(s.data + offset_of(p.keep, p.nkeep - 1, o));
      std::fill_n(acc, w, op.init());
      for (int64_t r = 0; r < steps; r += kRows) {
        const int n = int(std::min(kRows, steps - r));
        for (int k = 0; k < n; ++k) rows[k] = x + (r + k) * w;
        op.columns(acc, rows, n, w, r);
      }
      rows[0] = x + steps * w;
      if (tail) op.columns(acc, rows, 1, tail * columns, steps);
      for (int64_t k = 1; k < fold; ++k)
        for (int64_t j = 0; j < columns; ++j) op.merge(acc[j], acc[k * columns + j]);
      store_results(op, offset_of<&Axis::out>(p.keep, p.nkeep - 1, o), last.out, acc, columns);
    }
  });
}

template <class Op>
void reduce_rows(const Op& op, const Plan& p, const Source<typename Op::T>& s) {
  using T = typename Op::T;
  using Acc = typename Op::Acc;
  const int64_t pieces = pieces_of(p.outputs, p.length, 1);
  if (pieces > 1) return reduce_cut_rows(op, p, s, pieces);
  const bool buffered = !(s.direct && p.red[p.nred - 1].in == int64_t(sizeof(T)));
  const bool short_rows = are_short_rows(p, s);
  parallel_for(p.outputs, std::max<int64_t>(1, kGrain / p.length), [&](int64_t begin, int64_t end) {
    alignas(64) T buffer[kBlock];
    for (int64_t o = begin; o < end;) {
      // outputs one step of the last kept axis apart: one division per run, not per output
      const Axis last = p.nkeep ? p.keep[p.nkeep - 1] : Axis{1, 0, 0};
      const int64_t run = std::min(last.size - o % last.size, end - o), out = offset_of<&Axis::out>(p.keep, p.nkeep, o);
      const char* base = s.data + offset_of(p.keep, p.nkeep, o);
      if (short_rows) {
        reduce_short_rows(op, s, base, p.length, run, out, last.out);
      } else if (!buffered && p.nred == 1 && p.length <= kRun) {
        for (int64_t j = 0; j < run; ++j) {
          Acc acc = op.init();
          op.block(acc, reinterpret_cast<const T*>(base + j * last.in), p.length, 0);
          op.store(out + j * last.out, acc);
        }
      } else {
        for (int64_t j = 0; j < run; ++j) {
          Acc acc = op.init();
          feed(op, acc, s, p, base + j * last.in, 0, p.length, buffer);
          op.store(out + j * last.out, acc);
        }
      }
      o += run;
    }
  });
}

// A tall array of few columns, without gaps: several rows side by side fill the vectors.
inline bool folds_rows(const Plan& p) {
  const Axis& last = p.keep[p.nkeep - 1];
  return p.nred == 1 && p.nkeep == 1 && last.size <= 128 && p.length >= 16 && p.red[0].in == last.in * last.size;
}
// long because: folded rows, pieces and tiles share one array of accumulators, from the first row to the last merge
template <class Op>
void reduce_columns(const Op& op, const Plan& p, const Source<typename Op::T>& s) {
  using T = typename Op::T;
  using Acc = typename Op::Acc;
  Axis last = p.keep[p.nkeep - 1];
  Axis red[kMaxDims];
  std::copy(p.red, p.red + p.nred, red);
  int64_t length = p.length, columns = last.size, tail = 0, fold = 1;
  if (Op::kFold && folds_rows(p)) {
    fold = std::min<int64_t>(256 / columns, length);
    tail = length % fold;
    length /= fold;
    columns *= fold;
    red[0] = {length, last.in * columns, 0};
  }
  const bool direct = s.direct && last.in == int64_t(sizeof(T));
  const int64_t widest = direct ? kColumns : kCopied;
  const int64_t tiles = (columns + widest - 1) / widest, tile = std::min(columns, widest);
  const int64_t outer = p.outputs / last.size, units = outer * tiles;
  const int64_t pieces = pieces_of(units, length, tile);
  std::vector<Acc> all(size_t(pieces > 1 || fold > 1 ? pieces * outer * columns : 0));
  const int64_t work = std::max<int64_t>(1, length * tile / pieces);
  parallel_for(units * pieces, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    std::vector<T> buffer(direct ? 0 : size_t(kRows * tile));
    std::vector<Acc> local(size_t(all.empty() ? tile : 0));
    for (int64_t u = begin; u < end; ++u) {
      int64_t piece = u % pieces, unit = u / pieces, o = unit / tiles, first = unit % tiles * widest;
      int64_t w = std::min(widest, columns - first);
      const char* base = s.data + offset_of(p.keep, p.nkeep - 1, o) + first * last.in;
      Acc* acc = all.empty() ? local.data() : all.data() + (piece * outer + o) * columns + first;
      for (int64_t j = 0; j < w; ++j) acc[j] = op.init();
      feed_columns(op, acc, s, red, p.nred, base, last.in, w, part(length, piece, pieces),
                   part(length, piece + 1, pieces), buffer.data());
      if (!all.empty()) continue;
      const int64_t out = first * last.out + offset_of<&Axis::out>(p.keep, p.nkeep - 1, o);
      store_results(op, out, last.out, acc, w);
    }
  });
  if (all.empty()) return;
  const int64_t total = outer * columns;
  for (int64_t k = 1; k < pieces; ++k)
    for (int64_t j = 0; j < total; ++j) op.merge(all[size_t(j)], all[size_t(k * total + j)]);
  if (tail) {  // the rows left over when the others were folded
    std::vector<T> buffer(size_t(tail * last.size));
    const Axis one{1, 0, 0};
    feed_columns(op, all.data(), s, &one, 1, s.data + length * columns * last.in, last.in, tail * last.size, 0, 1,
                 buffer.data());
  }
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < last.size; ++j) {
      Acc acc = all[size_t(o * columns + j)];
      for (int64_t k = 1; k < fold; ++k) op.merge(acc, all[size_t(o * columns + k * last.size + j)]);
      op.store(j * last.out + offset_of<&Axis::out>(p.keep, p.nkeep - 1, o), acc);
    }
}

// x reduced over the dimensions in `mask`. Op: types T (compute) and Acc; init, block, columns, merge, store; kFold.
template <class Op>
void run_reduction(const Op& op, const Tensor& x, uint64_t mask, bool ordered = false) {
  using T = typename Op::T;
  Plan p;
  make_plan(p, x, mask, ordered);
  if (p.outputs == 0) return;
  if (p.length == 0) {
    for (int64_t o = 0; o < p.outputs; ++o) op.store(o, op.init());
    return;
  }
  Source<T> s{x.data, loader_of<T>(x.dtype), reads_directly<T>(x.dtype), x.itemsize()};
  const int64_t near_red = std::abs(p.red[p.nred - 1].in);
  const bool columns = p.nkeep && p.length > 1 && std::abs(p.keep[p.nkeep - 1].in) < near_red;
  const int64_t few = s.direct && Op::kFold && sizeof(T) >= 4 ? kFewColumns : 2 * kFewColumns;
  const bool fills = columns && (p.keep[p.nkeep - 1].size >= few || (Op::kFold && folds_rows(p)));
  if (columns && are_few_columns(p, s) && pieces_of(p.outputs, p.length, 1) == 1) reduce_few_columns(op, p, s);
  else if (columns && are_folded_blocks<Op>(p, s) && pieces_of(p.outputs, p.length, 1) == 1)
    reduce_folded_blocks(op, p, s);
  else if (fills) reduce_columns(op, p, s);
  else reduce_rows(op, p, s);
}

// --- arguments ------------------------------------------------------------------------------------------------------
// `dim` absent or empty: all dimensions.
inline uint64_t dims_mask(const Call& c, int k, int ndim) {
  const Value& v = c.args[k];
  const uint64_t all = ndim == 64 ? ~uint64_t(0) : (uint64_t(1) << ndim) - 1;
  if (v.tag == Tag::Int) return uint64_t(1) << wrap_dim(v.i, ndim, c.name()) & (all ? all : 1);
  Dims dims = v.tag == Tag::Ints ? c.ints(k) : Dims{};
  if (dims.empty()) return all;
  uint64_t mask = 0;
  for (int64_t d : dims) {
    uint64_t bit = uint64_t(1) << wrap_dim(d, ndim, c.name());
    if (mask & bit) runtime_error(c.name(), ": dim ", wrap_dim(d, ndim, c.name()), " is given twice");
    mask |= bit;
  }
  return mask & all;
}

inline Sizes reduced_shape(const Tensor& x, uint64_t mask, bool keepdim) {
  Sizes s;
  for (int d = 0; d < x.ndim; ++d) {
    if (!(mask >> d & 1)) s.size[s.ndim++] = x.sizes[d];
    else if (keepdim) s.size[s.ndim++] = 1;
  }
  return s;
}

inline void check_order(const Call& c, const Tensor& x) {
  if (is_complex(x.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
}

// x as a kernel whose result has dtype `target` reads it: itself where its loader serves, else converted first.
inline TensorRef in_dtype(const Tensor& x, DType target) {
  bool native = x.dtype == target || (is_half(x.dtype) && target == DType::Float32) ||
                (category(x.dtype) <= Category::Integer && category(target) == Category::Integer);
  return native ? TensorRef::borrow(const_cast<Tensor*>(&x)) : to_dtype(x, target);
}

}  // namespace flambeau

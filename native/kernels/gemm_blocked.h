// The blocked product: how C is cut for caches and threads, whatever B is made of.
#pragma once
#include <numeric>

#include "gemm.h"

namespace flambeau {

inline constexpr int64_t kDirectWork = 128 * 128 * 128;  // multiplications up to which packing A does not pay
inline constexpr int64_t kDirectBytes = 96 << 10;        // B stays in the first two caches
inline constexpr int64_t kBlockK = 384, kBlockM = 144, kBlockN = 528;
inline constexpr int64_t kLongSum = 2048, kFewSums = 64 * 64, kMostParts = 16;
inline constexpr int64_t kInPlaceRows = 96;              // of A that are read where they lie by all columns of a strip
inline constexpr int64_t kInPlaceColumns = 128;          // of C, for which packing A does not pay
inline constexpr int64_t kFetchRows = 512;               // of A, up to which the packing of B is worth preparing
// A few rows of A are over sooner than B is read: then strips are wide and flat, since memory likes long rows.
inline constexpr int64_t kFewRowsOfA = 48, kFlatK = 96, kFlatN = 1056;
inline constexpr int64_t kCacheSpan = 64 << 10;          // bytes after which a second cache's places repeat, or more
inline constexpr int64_t kCacheWays = 8;                 // lines that it keeps in one place, or more

template <class T>
Epilogue<T> shifted(Epilogue<T> e, int64_t row, int64_t col) {
  if (e.bias_row) e.bias_row += row;
  if (e.bias_col) e.bias_col += col;
  return e;
}

// How many rows of A stay in the second cache where they lie, 0 where these are too few for a block. Rows a large power
// of two apart share few places there.
template <class T>
int64_t rows_in_place(int64_t ars, int64_t acs) {
  if (acs != 1) return 0;
  const int64_t apart = std::gcd(ars * int64_t(sizeof(T)), kCacheSpan), all = kCacheWays * kCacheSpan;
  return kInPlaceRows * apart <= all ? kInPlaceRows : kInPlaceRows / 2 * apart <= all ? kInPlaceRows / 2 : 0;
}

// Where the blocked product takes B from.
template <class T>
struct Rows {
  const T* at;
  int64_t rs, cs;
  bool few;  // rows of A in all, not of one thread: how sums are cut must not depend on the number of threads
  Rows(const T* at, int64_t rs, int64_t cs, int64_t m) : at(at), rs(rs), cs(cs), few(m <= kFewRowsOfA) {}
  bool in_rows() const { return cs == 1; }
  bool flat_strips() const { return few && in_rows(); }
  Rows from_column(int64_t j) const {
    Rows some = *this;
    some.at += j * cs;
    return some;
  }
  // Rows p … p + k of columns j … j + cols as a panel (GemmKernels::pack).
  void pack(T* panel, int64_t width, int64_t p, int64_t j, int64_t cols, int64_t k) const {
    gemm_kernels<T>().pack(panel, int(width), at + p * rs + j * cs, cs, rs, cols, k);
  }
  // All panels of `cols` columns, row by row: whole lines one after the other, as memory likes to be read.
  void pack_rows(T* panels, int64_t width, int64_t p, int64_t j, int64_t cols, int64_t k) const {
    for (int64_t i = 0; i < k; ++i) {
      const T* from = at + (p + i) * rs + j;
      for (int64_t first = 0; first < cols; first += width) {
        T* to = panels + first * k + i * width;
        const int64_t some = std::min(width, cols - first);
        std::copy_n(from + first, some, to);
        std::fill(to + some, to + width, T(0));
      }
    }
  }
  // What such a panel reads. Weights come from memory, and a packing that waits for them took a twelfth of the time of
  // a few hundred rows.
  Fetch::Rows ahead(int64_t p, int64_t j, int64_t cols, int64_t k) const {
    if (rs != 1 && cs != 1) return {};
    const int64_t size = sizeof(T), count = rs == 1 ? cols : k, length = rs == 1 ? k : cols;
    const auto* first = reinterpret_cast<const char*>(at + p * rs + j * cs);
    return {first, count, (length * size + 63) / 64, (rs == 1 ? cs : rs) * size};
  }
};

// The blocked product in one thread: a strip of B in the last cache, a block of A in the second, tiles in registers.
// A is packed where its rows would not stay in a cache; few columns do not repay that: each row then meets all of them
// before the next.
// long because: strips of B, blocks of A and tiles share what is packed
template <class T, class B>
void blocked(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const B& b, T* c, int64_t crs,
             const Epilogue<T>& e) {
  const auto& kernels = gemm_kernels<T>();
  const int64_t mr = kernels.mr, nr = kernels.nr;
  const int64_t stays = rows_in_place<T>(ars, acs);
  const bool packs = !stays && (acs != 1 || n > kInPlaceColumns);
  // Rows of B are packed for all panels of a strip at once: panel by panel, memory is asked for too many short pieces.
  const bool few = b.flat_strips();
  const bool together = few || (b.in_rows() && m <= kFetchRows && !fetches_in_bursts());
  const int64_t deepest = few ? kFlatK : kBlockK;
  const int64_t pieces = (k + deepest - 1) / deepest, kc = (k + pieces - 1) / pieces;
  const int64_t mc = std::min(packs ? kBlockM : stays ? stays : mr, (m + mr - 1) / mr * mr);
  const int64_t nc = std::min((few ? kFlatN : kBlockN) / nr * nr, (n + nr - 1) / nr * nr);
  T* pa = packs ? scratch<T>(kScratchA, mc * kc) : nullptr;
  T* pb = scratch<T>(kScratchB, nc * kc);
  if (e.fetch) e.fetch->spread(pieces * ((n + nr - 1) / nr) * ((m + mr - 1) / mr));
  Fetch next;
  const bool bursts = fetches_in_bursts();
  const auto pack_panel = [&](int64_t j0, int64_t p0, int64_t j, int64_t nj) {
    const int64_t kp = std::min(kc, k - p0);
    b.pack(pb + j * kp, nr, p0, j0 + j, std::min(nr, nj - j), kp);
    if (m > kFetchRows || e.fetch) return;
    int64_t col = j0 + j + nr, end = j0 + nj, p = p0;
    if (col >= end) col = j0, p += kc;
    if (p >= k) col = j0 + nc, end = n, p = 0;
    if (col >= end) return;
    next.rows[0] = b.ahead(p, col, std::min(nr, end - col), std::min(kc, k - p));
    next.spread((std::min(mc, m) + mr - 1) / mr);
  };
  for (int64_t j0 = 0; j0 < n; j0 += nc) {
    int64_t nj = std::min(nc, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kc) {
      int64_t kp = std::min(kc, k - p0);
      bool first = p0 == 0, final = p0 + kp == k;
      Epilogue<T> step{e.alpha, first ? e.beta : T(1), final ? e.bias_col : nullptr, final ? e.bias_row : nullptr};
      for (int64_t i0 = 0; i0 < m; i0 += mc) {
        interruption_point();
        int64_t mi = std::min(mc, m - i0);
        const T* rows = a + i0 * ars + p0 * acs;
        if (packs)
          for (int64_t i = 0; i < mi; i += mr)
            kernels.pack(pa + i * kp, int(mr), rows + i * ars, ars, acs, std::min(mr, mi - i), kp);
        if constexpr (requires { b.pack_rows(pb, nr, p0, j0, nj, kp); })
          if (i0 == 0 && together) b.pack_rows(pb, nr, p0, j0, nj, kp);
        for (int64_t j = 0; j < nj; j += nr) {
          if (i0 == 0 && !together) pack_panel(j0, p0, j, nj);
          for (int64_t i = 0; i < mi; i += mr) {
            if (bursts) next.some();
            if (e.fetch) e.fetch->some();
            T* to = c + (i0 + i) * crs + j0 + j;
            const int height = int(std::min(mr, mi - i)), width = int(std::min(nr, nj - j));
            Epilogue<T> here = shifted(step, i0 + i, j0 + j);
            const Fetch::Rows part = bursts ? Fetch::Rows() : next.take();
            if (part.count) here.ahead = &part;
            if (packs) kernels.micro(kp, pa + i * kp, pb + j * kp, to, crs, height, width, here);
            else kernels.tile(kp, rows + i * ars, ars, acs, pb + j * kp, nr, to, crs, height, width, here);
          }
        }
        if (final && e.finish) e.finish->piece(c + i0 * crs + j0, crs, mi, nj);
      }
    }
  }
}

// Threads share C as a grid of rectangles; the grid that packs least is taken.
template <class T, class B>
void blocked_parallel(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const B& b, T* c,
                      int64_t crs, const Epilogue<T>& e) {
  const auto& kernels = gemm_kernels<T>();
  int64_t threads = num_threads(), rows = 1, best = INT64_MAX;
  for (int64_t r = 1; r <= threads; ++r)
    if (threads % r == 0 && m * (threads / r) + n * r < best) rows = r, best = m * (threads / r) + n * r;
  int64_t cols = threads / rows;
  auto cut = [](int64_t n, int64_t parts, int64_t unit) { return ((n + parts - 1) / parts + unit - 1) / unit * unit; };
  // columns in whole vectors: panels of them would leave one thread half a panel more than another
  int64_t mb = cut(m, rows, kernels.mr), nb = cut(n, cols, kernels.width);
  parallel_for(rows * cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t i = t / cols * mb, j = t % cols * nb;
      if (i >= m || j >= n) continue;
      blocked(std::min(mb, m - i), std::min(nb, n - j), k, a + i * ars, ars, acs, b.from_column(j), c + i * crs + j,
              crs, shifted(e, i, j));
    }
  });
}

// Whether operands fit the caches well enough to be read in place.
template <class T>
bool is_small(int64_t m, int64_t n, int64_t k, bool threads) {
  // halves of C for two threads would cost more than they save below this size
  return m * n * k <= kDirectWork && n * k * int64_t(sizeof(T)) <= kDirectBytes &&
         (!threads || m * n * k <= kParallelWork || m < 2 * gemm_kernels<T>().mr);
}

// Few results of long sums are computed in parts, by their length alone.
inline bool sums_in_parts(int64_t m, int64_t n, int64_t k) {
  return k >= kLongSum && m * n <= kFewSums && m * n * k > kParallelWork;
}

// Of complex numbers (gemm_complex.cpp).
template <class R>
void gemm_complex(int64_t m, int64_t n, int64_t k, const std::complex<R>* a, int64_t ars, int64_t acs,
                  const std::complex<R>* b, int64_t brs, int64_t bcs, std::complex<R>* c, int64_t crs,
                  std::complex<R> alpha, std::complex<R> beta, const std::complex<R>* bias, bool threads);

}  // namespace flambeau
